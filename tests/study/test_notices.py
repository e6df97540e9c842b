"""From where on a fit warns: at each bound, and just beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.federation.queries.interval_counts import Counts
from fedcox.solvers.newton import Newton
from fedcox.study.cells import TimeCells
from fedcox.study.fit import Estimate, estimate
from fedcox.study.notices import notices
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS

pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")


def deaths(each: Sequence[int], alive: int) -> Cohort:
    """Twice so many in each ten days, once with either value of a covariate without effect."""
    days = 10.0 * np.arange(len(each)) + 5.0
    time = np.tile(np.append(np.repeat(days, each), np.full(alive, 10.0 * len(each))), 2)
    event = np.tile(np.arange(time.size // 2) < sum(each), 2)
    value = np.arange(time.size) < time.size // 2
    return Cohort(value[:, None].astype(np.float64), time, event)


def fitted(cohort: Cohort, link: str = "cloglog", **changes: Any) -> Estimate:
    names = tuple(f"x{k}" for k in range(cohort.columns))
    plan = Plan(names, LINKS[link], "include", 10.0, None, 0.0, Newton())
    return estimate(replace(plan, **changes), InProcess.from_cohorts({"A": cohort}))


def text(found: Estimate, name: str, **changes: Any) -> str:
    """What is said under this name, were the agreement or the solution otherwise."""
    solution = {"converged", "decrement"} & changes.keys()
    agreement = found.agreement if solution else replace(found.agreement, **changes)
    end = replace(found.solution, **changes) if solution else found.solution
    told = notices(found.plan, agreement, end)
    return "".join(note.text for note in told if note.name == name)


@pytest.mark.parametrize(
    ("each", "alive", "coarse"),
    [
        ([15, *[5] * 17], 400, False),
        ([16, *[5] * 16, 4], 400, True),  # more than 15 % of the events in one interval
        ([5] * 20, 21, False),  # at the end 5 of 26
        ([5] * 20, 19, True),  # 5 of 24: a hazard above 0.2
    ],
)
def test_intervals_are_coarse_by_their_share_of_events_or_by_their_hazard(
    each: list[int], alive: int, coarse: bool
) -> None:
    told = text(fitted(deaths(each, alive)), "CoarseTimeWarning")
    assert ("up to 15 % and 0.2 grouped time is near a Cox model" in told) == coarse


@pytest.mark.parametrize(("first", "most"), [(50, False), (51, True)])
def test_a_piece_of_more_than_half_of_the_events_is_most_of_the_study(
    first: int, most: bool
) -> None:
    each = np.bincount(np.r_[np.arange(first) % 10, 10 + np.arange(100 - first) % 10])
    found = fitted(deaths(each.tolist(), 200), "log", width=None, edges=(100.0, 200.0))
    assert ("One piece holds" in text(found, "CoarseTimeWarning")) == most


def test_ties_decide_where_they_are_more_than_fifteen_per_cent_of_events() -> None:
    found = fitted(deaths([5] * 20, 100), "log", width=None)
    assert not text(found, "CoarseTimeWarning", tied=0.15)
    assert "16 % of the events fall on times" in text(found, "CoarseTimeWarning", tied=0.16)


@pytest.mark.parametrize(
    ("events", "reached", "tied"), [(5, 24, True), (5, 25, False), (4, 9, False), (5, 9, True)]
)
def test_a_time_is_one_of_ties_by_five_events_and_a_fifth_of_those_at_risk(
    events: int, reached: int, tied: bool
) -> None:
    cells = TimeCells.of(np.arange(11.0), 1.0)
    happened, left = np.ones(10), np.linspace(100.0, 91.0, 10)
    happened[8:], left[8:] = (events, 0), (reached, reached - events)
    counts = Counts(100, 0, 0, left, left, happened)
    assert cells.tied(counts) == (events / happened.sum() if tied else 0.0)


@pytest.mark.parametrize(
    ("pairs", "occupied", "crowded"), [(15, 0.69, True), (15, 0.7, False), (14, 0.1, False)]
)
def test_thirty_events_tell_when_seven_tenths_of_their_times_are_not_there(
    pairs: int, occupied: float, crowded: bool
) -> None:
    found = fitted(deaths([1] * pairs, 40), "log", width=None)
    told = text(found, "CoarseTimeWarning", occupied=occupied)
    assert ("name [outcome] resolution" in told) == crowded


@pytest.mark.parametrize(
    ("decrement", "words"),
    [
        (1e-6, "up to about 0.01 of a standard error."),
        (0.98, "up to about 0.99 of a standard error."),
        (1.0, "up to about 1.0 standard errors."),
        (1e4, "up to about 100.0 standard errors."),
        (1.001e4, "It is too far off to say how far."),
    ],
)
def test_how_far_off_a_search_ended_is_told_in_standard_errors(
    decrement: float, words: str
) -> None:
    found = fitted(deaths([5] * 20, 100))
    told = text(found, "NotConvergedWarning", converged=False, decrement=decrement)
    assert words in told


@pytest.mark.parametrize(("columns", "more"), [(12, ""), (13, " and 1 more")])
def test_a_dozen_columns_are_named(columns: int, more: str) -> None:
    some = deaths([5] * 20, 100)
    same = np.ones((some.patients, columns))
    cohort = Cohort(np.column_stack([some.covariates, same]), some.time, some.event)
    told = text(fitted(cohort), "ConstantColumnsWarning")
    assert told.startswith(f"{', '.join(f'x{k}' for k in range(1, 13))}{more}: the same value")
