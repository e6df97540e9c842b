"""What left each center, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow
from fedcox.reports.privacy_ledger import (
    LedgerTable,
    Traffic,
    ledger_table,
    read_ledger,
    summarise,
    write_ledger,
)
from fedcox.study.fitted import FittedStudy
from tests import fitted_examples as examples

ROWS = (
    LedgerRow(1, "A", "counts", 10, 80, 2, 16),
    LedgerRow(1, "B", "counts", 10, 80, 2, 16),
    LedgerRow(2, "A", "derivatives", 30, 240, 5, 40),
    LedgerRow(3, "A", "derivatives", 30, 240, 5, 40),
)
BARE = frozenset({"none"})
PROTECTED = (
    LedgerRow(1, "A", "counts", 10, 90, 2, 16, "masks"),
    LedgerRow(1, "B", "counts", 10, 90, 2, 16, "masks"),
    LedgerRow(2, "A", "slope", 30, 240, 5, 40, "masks and noise", 1.5),
    LedgerRow(3, "A", "slope", 30, 240, 5, 40, "masks and noise", 1.5),
)


def shown(fitted: FittedStudy) -> LedgerTable:
    table = ledger_table(fitted)
    assert table is not None
    return table


def test_the_ledger_adds_up_per_center_and_query() -> None:
    summary = summarise(ROWS)
    assert summary.centers == ("A", "B")
    assert summary.queries == ("counts", "derivatives")
    assert summary.of("A", "derivatives") == Traffic(2, 60, 480, 10, 80, BARE)
    assert summary.of("B", "derivatives") == Traffic()
    assert summary.of_center("A") == Traffic(3, 70, 560, 12, 96, BARE)
    assert summary.of_query("counts") == Traffic(2, 20, 160, 4, 32, BARE)
    assert summary.total == Traffic(4, 80, 640, 14, 112, BARE)


def test_a_ledger_reads_back_as_written(tmp_path: Path) -> None:
    write_ledger(ROWS, tmp_path / "ledger.jsonl")
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 4
    assert read_ledger(tmp_path / "ledger.jsonl") == ROWS


def test_a_line_that_is_no_row_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    write_ledger(ROWS, path)
    path.write_text(path.read_text() + '{"round": 4}\n')
    with pytest.raises(InputError, match="Line 5"):
        read_ledger(path)


def test_a_missing_ledger_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ledger\.jsonl that `fedcox fit` wrote"):
        read_ledger(tmp_path / "nowhere.jsonl")


def test_the_page_shows_what_each_center_sent_for_each_question() -> None:
    table = shown(examples.lung())
    assert [row.name for row in table.questions][1] == "interval counts"
    assert table.questions[1].numbers_up == "360"
    assert [row.numbers[1] for row in table.senders] == ["72"] * 5
    assert table.questions[3].times == "5"


def test_replies_about_single_patients_do_not_pass_as_sums() -> None:
    table = shown(examples.lung())
    assert table.patient_level
    assert "not a sum" in table.questions[0].remark
    assert table.questions[1].remark == ""


def test_a_fit_without_its_ledger_has_no_table() -> None:
    assert ledger_table(replace(examples.lung(), ledger=())) is None


def test_epsilon_is_that_of_the_study_and_does_not_grow_with_rounds() -> None:
    summary = summarise(PROTECTED)
    assert summary.of_query("slope").epsilon == 1.5
    assert summary.of_center("A").epsilon == summary.total.epsilon == 1.5
    assert summary.of_center("B").epsilon is None


def test_protections_of_several_questions_stand_side_by_side() -> None:
    assert summarise(PROTECTED).of_center("A").protections == {"masks", "masks and noise"}
    assert summarise(PROTECTED).of_center("B").protections == {"masks"}


def test_a_protected_ledger_reads_back_as_written(tmp_path: Path) -> None:
    write_ledger(PROTECTED, tmp_path / "ledger.jsonl")
    assert read_ledger(tmp_path / "ledger.jsonl") == PROTECTED


@pytest.mark.parametrize("more", ["", ', "protection": "none", "smallest_group": 7'])
def test_a_ledger_of_an_earlier_version_still_reads(tmp_path: Path, more: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(
        '{"round": 1, "center": "A", "query": "counts", "numbers_up": 10, "bytes_up": 80, '
        f'"numbers_down": 2, "bytes_down": 16{more}}}\n'
    )
    assert read_ledger(path) == ROWS[:1]


def test_the_page_shows_protection_and_epsilon() -> None:
    table = shown(examples.secure_sums())
    assert [row.protection for row in table.questions] == ["masks"] * 4
    assert {row.protection for row in table.senders} == {"masks"}
    assert (table.any_epsilon, table.weaker) == (False, ())
    table = shown(examples.differentially_private())
    (question,) = table.questions
    assert (question.protection, question.epsilon) == ("masks and noise", "1")
    assert [row.epsilon for row in table.senders] == ["1"] * 5


def test_questions_less_protected_than_the_fit_are_named() -> None:
    fitted = examples.secure_sums()
    bare = LedgerRow(9, "Hospital 1", "gradient", 10, 80, 2, 16)
    assert shown(replace(fitted, ledger=(*fitted.ledger, bare))).weaker == ("gradient",)
    private = examples.differentially_private()
    masked = bare._replace(query="interval counts", protection="masks")
    assert shown(replace(private, ledger=(*private.ledger, masked))).weaker == (
        "interval counts",
    )
    keys = bare._replace(query="key set-up", protection="keys")
    assert shown(replace(private, ledger=(*private.ledger, keys))).weaker == ()
    assert shown(examples.lung()).weaker == ()


def test_a_center_that_stopped_answering_is_still_accounted_for() -> None:
    fitted = examples.secure_sums()
    left = replace(fitted, centers=fitted.centers[:4])
    table = shown(left)
    assert [row.name for row in table.senders] == [f"Hospital {i}" for i in range(1, 6)]
    assert [bool(row.remark) for row in table.senders] == [False] * 4 + [True]
    assert table.total == shown(fitted).total


def test_every_question_that_a_study_may_ask_is_in_plain_words() -> None:
    for name in (
        "last interval",
        "noised score",
        "clipped network gradient of a sample",
        "compressed gradient of a batch",
        "local steps",
        "patients and events",
    ):
        row = LedgerRow(1, "Hospital 1", name, 10, 80, 2, 16)
        assert shown(replace(examples.lung(), ledger=(row,))).questions[0].words
