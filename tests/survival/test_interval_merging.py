"""Merged intervals: enough patients leave in each, and nobody is counted wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import CohortError
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.survival.cohort import Cohort
from fedcox.survival.interval_merging import leavers_within, merged_ends, merged_leavers
from fedcox.survival.time_grid import CensoredInterval, TimeGrid

READINGS: tuple[CensoredInterval, ...] = ("include", "exclude", "half")


@st.composite
def cohorts(draw: st.DrawFn) -> Cohort:
    size = draw(st.integers(12, 120))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    time = np.ceil(rng.exponential(draw(st.sampled_from([20.0, 60.0])), size)) + 1.0
    return Cohort(rng.normal(size=(size, 2)), time, rng.random(size) < 0.4)


@pytest.mark.parametrize("reading", READINGS)
@given(cohorts(), st.integers(1, 12), st.sampled_from([1.0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_groups_are_large_enough_and_counted_as_patients_are(
    reading: CensoredInterval, cohort: Cohort, group: int, part: float
) -> None:
    horizon = np.ceil(part * float(cohort.time.max()) / 10.0) * 10.0
    grid = TimeGrid.regular(10.0, max(horizon, 20.0))
    life = IntervalCounts(grid, "include").answer(cohort)
    parts = life.patients, life.at_risk, life.events
    ends = merged_ends(*parts, reading, smallest_group=group, smallest_tail=10)
    merged = grid.merged(ends)
    risk = merged.at_risk(cohort.time, cohort.event, reading)
    own = risk.leavers(merged.intervals)
    np.testing.assert_array_equal(own, merged_leavers(*parts, ends, reading))
    if merged.intervals > 1:
        total = own.sum(axis=0)
        assert total[total > 0].min() >= group
        assert own[own > 0].min() >= -(-group // 2)
    active = np.random.default_rng(group).random(merged.intervals) < 0.7
    np.testing.assert_array_equal(
        risk.within(active).leavers(int(active.sum())),
        leavers_within(active, own.astype(np.float64)),
    )
    counts = IntervalCounts(merged, "include").answer(cohort)
    assert counts.at_risk[-1] >= 10
    # Every event up to the new horizon is in exactly one interval.
    assert counts.events.sum() == np.count_nonzero(
        cohort.event & (cohort.time <= merged.horizon)
    )


def test_no_limits_merge_nothing_but_empty_ends() -> None:
    grid = TimeGrid.regular(10.0, 100.0)
    rng = np.random.default_rng(3)
    cohort = Cohort(rng.normal(size=(50, 1)), rng.uniform(1, 95, 50), rng.random(50) < 0.5)
    life = IntervalCounts(grid, "include").answer(cohort)
    ends = merged_ends(
        life.patients, life.at_risk, life.events, "include", smallest_group=0, smallest_tail=0
    )
    np.testing.assert_array_equal(ends, life.at_risk > 0)


def test_too_few_patients_for_the_limits() -> None:
    with pytest.raises(CohortError, match=r"too few patients"):
        merged_ends(
            4,
            np.array([4.0, 2.0]),
            np.array([1.0, 0.0]),
            "include",
            smallest_group=10,
            smallest_tail=10,
        )
