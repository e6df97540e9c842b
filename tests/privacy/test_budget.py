from __future__ import annotations

import json
import math
import multiprocessing
import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcox.privacy.budget as budget_module
from fedcox.errors import BudgetError, PolicyError
from fedcox.privacy.budget import Budget, Payment

DELTA = 1e-5


DAY = date(2026, 11, 19)


def budget(
    folder: Path, epsilon: float | None = 1.0, delta: float | None = 1e-3, day: date = DAY
) -> Budget:
    return Budget(folder / "budget.jsonl", epsilon=epsilon, delta=delta, today=lambda: day)


def reserve(of: Budget, epsilon: float = 0.25, study: str = "a" * 64) -> None:
    of.reserve(study, name="lung", epsilon=epsilon, delta=DELTA, releases=3)


def test_a_study_that_goes_on_after_it_was_taken_over_is_counted_whole(tmp_path: Path) -> None:
    own = Budget(tmp_path / "own" / "account", today=lambda: date(2026, 11, 19))
    shared = Budget(tmp_path / "shared" / "account")
    terms: dict[str, Any] = {"name": "x", "delta": 1e-5, "releases": 17}
    own.reserve("a" * 64, epsilon=0.3, right="first", **terms)
    shared.take_over(own)
    own.reserve("a" * 64, epsilon=8.0, right="first", **terms)
    for _ in range(2):
        shared.take_over(own)
        assert shared.spent.epsilon == pytest.approx(8.0)
        assert (shared.spent.studies, shared.spent.delta) == (1, 1e-5)
    # A new account at the same place is another one.
    for file in (own.path, own.path.with_name("account.head")):
        file.unlink()
    own.reserve("b" * 64, epsilon=9.0, right="second", **terms)
    shared.take_over(own)
    assert shared.spent.epsilon == pytest.approx(17.0)


def test_studies_add_up_until_nothing_is_left(tmp_path: Path) -> None:
    for _ in range(4):
        reserve(budget(tmp_path))  # each time as after a restart
    spent = budget(tmp_path).spent
    assert (spent.studies, spent.epsilon) == (4, 1.0)
    assert spent.delta == pytest.approx(4 * DELTA, rel=1e-12)
    with pytest.raises(BudgetError) as refused:
        reserve(budget(tmp_path), 0.01)
    assert "1 of 1 is spent by 4 studies, this one asks for 0.01" in str(refused.value)
    assert budget(tmp_path).spent == spent, "a refused study costs nothing"


def test_earlier_studies_are_told_by_name_and_day(tmp_path: Path) -> None:
    reserve(budget(tmp_path), study="a" * 64)
    later = budget(tmp_path, day=date(2027, 1, 2))
    later.reserve("b" * 64, name="Brust – Ⅱ", epsilon=0.5, delta=1e-6, releases=11)
    spent = budget(tmp_path).spent
    assert spent.payments == (
        Payment("a" * 64, "lung", "2026-11-19", 0.25, DELTA, 3),
        Payment("b" * 64, "Brust – Ⅱ", "2027-01-02", 0.5, 1e-6, 11),
    )
    assert (spent.studies, spent.epsilon) == (2, 0.75)


def test_without_a_limit_nothing_is_refused_and_all_is_counted(tmp_path: Path) -> None:
    free = budget(tmp_path, epsilon=None, delta=None)
    for _ in range(3):
        reserve(free, 1000.0)
    assert (free.spent.studies, free.spent.epsilon) == (3, 3000.0)
    with pytest.raises(BudgetError, match="3000 of 1 is spent"):
        reserve(budget(tmp_path), 0.1)  # a limit that is set later counts what was before


def test_a_file_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    line = {"delta": 1e-5, "epsilon": 0.25, "previous": "0" * 64, "releases": 3}
    text = json.dumps(line | {"study": "s", "version": 1}, sort_keys=True) + "\n"
    (tmp_path / "budget.jsonl").write_text(text)
    (tmp_path / "budget.jsonl.head").write_text(budget_module._hash(text) + "\n")
    with pytest.raises(BudgetError, match="of another version") as refused:
        reserve(budget(tmp_path))
    assert "set the epsilon and delta of the policy lower" in str(refused.value)
    assert (tmp_path / "budget.jsonl").read_text() == text


def test_ten_tenths_are_a_whole(tmp_path: Path) -> None:
    for _ in range(10):
        reserve(budget(tmp_path), 0.1)
    with pytest.raises(BudgetError):
        reserve(budget(tmp_path), 1e-6)


def test_delta_is_a_budget_too(tmp_path: Path) -> None:
    tight = budget(tmp_path, epsilon=100.0, delta=1.5 * DELTA)
    reserve(tight)
    with pytest.raises(BudgetError, match="Delta"):
        reserve(tight)


def test_it_is_on_the_disk_before_the_study_gets_its_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash at the last moment, with the line written: the epsilon is gone."""
    real, calls = os.fsync, 0

    def crash(handle: int) -> None:
        nonlocal calls
        real(handle)
        calls += 1
        if calls == 3:  # the line, its hash, and now the folder
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", crash)
        with pytest.raises(KeyboardInterrupt):
            reserve(budget(tmp_path))
    assert calls == 3
    assert budget(tmp_path).spent.epsilon == 0.25


def test_a_crash_between_line_and_head_costs_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve(budget(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Budget, "_write_head", lambda self, last: (_ for _ in ()).throw(OSError))
        with pytest.raises(BudgetError, match="cannot be written"):
            reserve(budget(tmp_path))
    assert budget(tmp_path).spent.epsilon == 0.5
    reserve(budget(tmp_path))
    assert budget(tmp_path).spent.epsilon == 0.75


def test_the_first_crash_of_all_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(budget_module, "append_to_disk", full)
        with pytest.raises(BudgetError, match="No space left"):
            reserve(budget(tmp_path))
    assert budget(tmp_path).spent.epsilon == 0.0
    reserve(budget(tmp_path))
    assert budget(tmp_path).spent.epsilon == 0.25


@pytest.mark.parametrize("file", ["budget.jsonl", "budget.jsonl.head"])
def test_a_deleted_file_is_noticed(tmp_path: Path, file: str) -> None:
    reserve(budget(tmp_path))
    (tmp_path / file).unlink()
    with pytest.raises(BudgetError, match="cannot be trusted"):
        reserve(budget(tmp_path))


def test_a_lowered_line_is_noticed(tmp_path: Path) -> None:
    for _ in range(3):
        reserve(budget(tmp_path))
    file = tmp_path / "budget.jsonl"
    for number in range(3):
        rows = file.read_text().splitlines(True)
        kept = rows[number]
        line = json.loads(kept)
        rows[number] = json.dumps({**line, "epsilon": 0.01}, sort_keys=True) + "\n"
        file.write_text("".join(rows))
        with pytest.raises(BudgetError, match="cannot be trusted"):
            _ = budget(tmp_path).spent
        rows[number] = kept
        file.write_text("".join(rows))
    assert budget(tmp_path).spent.studies == 3


@given(data=st.data())
@settings(max_examples=40)
def test_a_file_cut_or_changed_anywhere_is_refused_and_left_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("budget")
    for _ in range(3):
        reserve(budget(folder))
    file = folder / "budget.jsonl"
    whole = file.read_bytes()
    if data.draw(st.booleans(), label="cut"):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        place = data.draw(st.integers(0, len(whole) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
        damaged = whole[:place] + bytes([other]) + whole[place + 1 :]
    file.write_bytes(damaged)
    with pytest.raises(BudgetError, match="cannot be trusted"):
        reserve(budget(folder))
    assert file.read_bytes() == damaged


def test_two_crashes_in_a_row_between_line_and_head_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve(budget(tmp_path), 0.1)
    real = Budget._write_head
    for spent in (2, 3, 4):

        def crash(self: Budget, last: str) -> None:
            lines = len((tmp_path / "budget.jsonl").read_text().splitlines())
            if lines == spent:  # noqa: B023 - called in this turn of the loop
                raise KeyboardInterrupt
            real(self, last)

        with monkeypatch.context() as patch:
            patch.setattr(Budget, "_write_head", crash)
            with pytest.raises(KeyboardInterrupt):
                reserve(budget(tmp_path), 0.1)
        assert budget(tmp_path).spent.studies == spent


@given(st.data())
@settings(max_examples=30)
def test_half_a_line_that_a_crash_left_is_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("budget")
    before = data.draw(st.integers(0, 2), label="studies before")
    for _ in range(before):
        reserve(budget(folder))
    file, head = folder / "budget.jsonl", folder / "budget.jsonl.head"
    head_before = head.read_text() if before else "0" * 64 + "\n"
    reserve(budget(folder))
    last = file.read_text().splitlines(True)[-1]
    length = data.draw(st.integers(1, len(last)), label="missing")
    file.write_text(file.read_text()[:-length])
    head.write_text(head_before)  # it is written after the line
    assert budget(folder).spent.studies == before
    reserve(budget(folder))
    assert budget(folder).spent.studies == before + 1
    assert len(file.read_text().splitlines()) == before + 1


def test_a_named_right_is_paid_for_once(tmp_path: Path) -> None:
    terms = {"name": "lung", "epsilon": 0.25, "delta": DELTA, "releases": 3}
    for name in ("a", "b", "a", "b", "a"):
        budget(tmp_path).reserve("study", **terms, right=name)  # type: ignore[arg-type]
    assert budget(tmp_path).spent.studies == 2
    for _ in range(2):
        reserve(budget(tmp_path))  # without a name every one is another
    assert budget(tmp_path).spent.studies == 4
    budget(tmp_path).reserve("study", **terms, right="a")  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="4 studies"):
        budget(tmp_path).reserve("study", **terms, right="c")  # type: ignore[arg-type]


def test_of_a_right_that_asks_for_more_the_difference_is_paid(tmp_path: Path) -> None:
    for epsilon in (0.25, 0.4, 0.3, 0.4):
        budget(tmp_path).reserve(
            "study", name="lung", epsilon=epsilon, delta=DELTA, releases=3, right="a"
        )
    spent = budget(tmp_path).spent
    assert spent.studies == 1
    assert spent.epsilon == pytest.approx(0.4, rel=1e-12)
    assert spent.delta == DELTA


def test_a_line_is_as_it_is_documented(tmp_path: Path) -> None:
    reserve(budget(tmp_path), study="s")
    assert (tmp_path / "budget.jsonl").read_text() == (
        '{"day": "2026-11-19", "delta": 1e-05, "epsilon": 0.25, "name": "lung", '
        '"previous": "' + "0" * 64 + '", "releases": 3, "study": "s", "version": 2}\n'
    )


def _in_another_process(path: Path, outcome: multiprocessing.SimpleQueue[bool]) -> None:
    try:
        reserve(Budget(path, epsilon=1.0, delta=1e-3), 0.3)
        outcome.put(True)
    except BudgetError:
        outcome.put(False)


def test_two_studies_at_once_do_not_both_get_the_last_epsilon(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    outcome = context.SimpleQueue()
    path = tmp_path / "budget.jsonl"
    processes = [
        context.Process(target=_in_another_process, args=(path, outcome)) for _ in range(6)
    ]
    for process in processes:
        process.start()
    found = [outcome.get() for _ in processes]
    for process in processes:
        process.join()
    assert sorted(found) == [False] * 3 + [True] * 3
    assert budget(tmp_path).spent.epsilon == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases"),
    [(0.0, DELTA, 1), (-1.0, DELTA, 1), (math.nan, DELTA, 1), (1.0, 0.0, 1), (1.0, DELTA, 0)],
)
def test_what_cannot_be_spent_is_refused(
    tmp_path: Path, epsilon: float, delta: float, releases: int
) -> None:
    with pytest.raises(BudgetError, match="cannot be spent"):
        budget(tmp_path).reserve(
            "a", name="lung", epsilon=epsilon, delta=delta, releases=releases
        )
    assert not (tmp_path / "budget.jsonl").exists()


def test_a_policy_without_a_limit_is_no_budget(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="Epsilon"):
        budget(tmp_path, epsilon=math.inf)


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BudgetError, match="cannot be written"):
        reserve(budget(tmp_path / "file"))


def test_another_account_of_the_same_patients_is_taken_over_once(tmp_path: Path) -> None:
    """Also studies that are alike: each was answered."""
    accounts = [Budget(tmp_path / name) for name in ("one.jsonl", "two.jsonl", "all.jsonl")]
    for account in accounts[:2]:
        account.reserve("s", name="lung", epsilon=4.0, delta=1e-5, releases=1)
    for _ in range(2):
        for account in accounts:
            accounts[2].take_over(account)
    assert (accounts[2].spent.studies, accounts[2].spent.epsilon) == (2, 8.0)
