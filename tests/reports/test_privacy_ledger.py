"""What left each center, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow
from fedcox.reports.ledger_table import ledger_table
from fedcox.reports.privacy_ledger import Traffic, read_ledger, summarise, write_ledger
from tests import fitted_examples as examples

ROWS = (
    LedgerRow(1, "A", "counts", 10, 80, 2, 16),
    LedgerRow(1, "B", "counts", 10, 80, 2, 16),
    LedgerRow(2, "A", "derivatives", 30, 240, 5, 40),
    LedgerRow(3, "A", "derivatives", 30, 240, 5, 40),
)


def test_the_ledger_adds_up_per_center_and_query() -> None:
    summary = summarise(ROWS)
    assert summary.centers == ("A", "B")
    assert summary.queries == ("counts", "derivatives")
    assert summary.of("A", "derivatives") == Traffic(2, 60, 480, 10, 80)
    assert summary.of("B", "derivatives") == Traffic()
    assert summary.of_center("A") == Traffic(3, 70, 560, 12, 96)
    assert summary.of_query("counts") == Traffic(2, 20, 160, 4, 32)
    assert summary.total == Traffic(4, 80, 640, 14, 112)


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
    table = ledger_table(examples.lung())
    assert table is not None
    assert [row.query for row in table.questions][1] == "interval counts"
    assert table.questions[1].numbers_up == "360"
    assert [row.numbers[1] for row in table.senders] == ["72"] * 5
    assert table.questions[3].times == "5"


def test_replies_about_single_patients_do_not_pass_as_sums() -> None:
    table = ledger_table(examples.lung())
    assert table is not None
    assert table.patient_level
    assert "not a sum" in table.questions[0].remark
    assert table.questions[1].remark == ""


def test_a_fit_without_its_ledger_has_no_table() -> None:
    assert ledger_table(replace(examples.lung(), ledger=())) is None
