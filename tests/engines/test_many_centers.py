"""Above 64 centers the engine sums over groups; what a study sees of it is the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fedcox.engines import in_process
from fedcox.engines.in_process import InProcess
from fedcox.federation.center import Center
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.solvers.newton import Newton
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS
from tests.problems import simulated, split

COHORT = simulated(900, 3, seed=4)
PLAN = Plan(("a", "b", "c"), LINKS["cloglog"], "include", 25.0, None, 0.0, Newton())


def centers(number: int) -> dict[str, Cohort]:
    """Of unequal sizes, some empty."""
    draws = np.random.default_rng(number).beta(1.0, 2.0, 900)
    return split(COHORT, np.floor(draws * number).astype(np.int64), number)


def test_the_ledger_is_the_same_in_groups_and_apart() -> None:
    ways = [InProcess.from_cohorts(centers(150), apart=apart) for apart in (False, True)]
    together, apart = (estimate(PLAN, way) for way in ways)
    assert together.ledger == apart.ledger
    assert len(together.ledger) > 150 * together.rounds
    np.testing.assert_allclose(
        together.inference.coefficients, apart.inference.coefficients, rtol=1e-10
    )


@pytest.mark.parametrize("number", [7, 200])
def test_apart_the_sum_is_that_of_single_replies_to_the_last_bit(number: int) -> None:
    cohorts = centers(number)
    query = CovariateSums()
    expected = query.answer(cohorts[min(cohorts)])
    for name in sorted(cohorts)[1:]:
        expected = query.combine(expected, query.answer(cohorts[name]))
    found = InProcess.from_cohorts(cohorts, apart=True).ask(query)
    np.testing.assert_array_equal(found.total, expected.total)


def test_few_centers_are_never_put_into_groups() -> None:
    cohorts = centers(64)
    ways = [InProcess.from_cohorts(cohorts, apart=apart) for apart in (False, True)]
    one, other = (estimate(PLAN, way).inference.coefficients for way in ways)
    np.testing.assert_array_equal(one, other)


def test_a_large_center_among_many_counts_a_question_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_process, "_FULL", 100)  # so that one center fills a group alone
    counted: list[str] = []
    monkeypatch.setattr(Gate, "admit", lambda self, asked, **about: counted.append(asked))
    names = [f"c{number:03d}" for number in range(70)]
    parts = [slice(0, 200), *(slice(200 + 10 * n, 210 + 10 * n) for n in range(69))]
    federation = InProcess(
        [
            Center(
                name,
                Cohort(COHORT.covariates[rows], COHORT.time[rows], COHORT.event[rows]),
                gate=Gate(Policy()),
            )
            for name, rows in zip(names, parts, strict=True)
        ]
    )
    federation.ask(CovariateSums())
    assert counted == ["covariate sums"] * 70


@pytest.mark.parametrize(("apart", "number"), [(False, 70), (True, 20)])
def test_twice_the_centers_take_twice_the_calls(apart: bool, number: int) -> None:
    """Without a clock: what grew faster than the centers would show in the calls."""

    def of_fit(size: int) -> int:
        federation = InProcess.from_cohorts(alike(size), apart=apart)
        return calls(lambda: estimate(PLAN, federation))

    small, middle, large = (of_fit(size) for size in (number, 2 * number, 4 * number))
    assert large - middle <= 2.02 * (middle - small)


def alike(number: int) -> dict[str, Cohort]:
    """Centers with the same twenty patients, under numbers of their own."""
    first = slice(0, 20)
    return {
        f"c{k:04d}": Cohort(
            COHORT.covariates[first],
            COHORT.time[first],
            COHORT.event[first],
            np.arange(20 * k, 20 * k + 20),
        )
        for k in range(number)
    }


def calls(run: Callable[[], object]) -> int:
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def test_what_a_reply_holds_is_counted_once_for_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Packing every center's reply to count its numbers took longer than the sums."""
    packed = []
    inner = CovariateSums.pack

    def pack(query: CovariateSums, answer: ColumnSums) -> FloatArray:
        packed.append(query)
        return inner(query, answer)

    monkeypatch.setattr(CovariateSums, "pack", pack)
    federation = InProcess.from_cohorts(centers(150))
    federation.ask(CovariateSums())
    assert len(packed) <= 2
    rows = federation.ledger.since((0, 0))
    assert {row.numbers_up for row in rows} == {7}
    assert len(rows) == 150
