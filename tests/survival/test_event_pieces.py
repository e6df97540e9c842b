"""Where time is cut, and in which unit it was recorded: by hand, and for all inputs."""

from __future__ import annotations

from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.federation.queries.recorded_unit import CommonUnit, FractionalTimes, RecordedUnit
from fedcox.survival.cohort import Cohort
from fedcox.survival.event_pieces import (
    EXACT,
    common_unit,
    cut_by_events,
    join_empty,
    named_bounds,
    public_cells,
    public_ends,
    recorded_unit,
    round_times,
)
from fedcox.survival.ties import STEPS
from fedcox.survival.time_grid import Pieces

counts = st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any)


def in_pieces(events: list[int], kept: np.ndarray) -> list[int]:
    return [sum(events[a:b]) for a, b in pairwise(kept)]


@given(events=counts, most=st.integers(1, 20), least=st.integers(1, 12))
def test_pieces_hold_every_event_and_no_fewer_than_the_least(
    events: list[int], most: int, least: int
) -> None:
    kept = cut_by_events(np.array(events, dtype=float), most=most, least=least)
    held = in_pieces(events, kept)
    assert sum(held) == sum(events)
    assert len(held) <= most
    assert min(held) >= min(least, sum(events))
    assert events[kept[0]] > 0  # it begins with the first event, and ends with the last
    assert events[kept[-1] - 1] > 0


def test_pieces_have_about_as_many_events_each() -> None:
    kept = cut_by_events(np.ones(100), most=10)
    assert in_pieces([1] * 100, kept) == [10] * 10
    tied = [1] * 40 + [50] + [1] * 40
    assert max(in_pieces(tied, cut_by_events(np.array(tied, float), most=13))) <= 55


@given(events=counts)
def test_a_named_piece_without_events_joins_the_next_but_at_the_ends(events: list[int]) -> None:
    kept = join_empty(np.array(events, dtype=float))
    held = in_pieces(events, kept)
    assert (kept[0], kept[-1]) == (0, len(events))
    first, last = np.flatnonzero(events)[[0, -1]]
    inner = held[int(first > 0) : len(held) - int(last < len(events) - 1)]
    assert all(inner)
    assert sum(inner) == sum(events)


@pytest.mark.parametrize(
    ("horizon", "unit"),
    [
        (horizon, unit)
        for horizon in (0.003, 1.0, 50.0, 1080.0, 18262.0, 1e7)
        for unit in (None, 1.0, 0.1, 7.0)
        if unit is None or unit <= horizon
    ],
)
def test_public_cells_are_fine_and_no_more_than_the_study_can_send(
    horizon: float, unit: float | None
) -> None:
    bounds = public_cells(horizon, unit)
    assert bounds[0] == 0
    assert bounds[-1] <= horizon * (1 + 1e-9)
    assert bounds[-1] > horizon - (unit or 1e-9 * horizon) * (1 + 1e-6)
    assert bounds.size < 4000
    widths = np.diff(bounds)
    smallest = unit or horizon / 20_000
    assert (widths <= np.maximum(1.01 * smallest, 0.00501 * bounds[1:] + smallest)).all()
    if unit is not None:
        np.testing.assert_allclose(bounds / unit, np.rint(bounds / unit), atol=1e-6)


def test_the_end_of_follow_up_is_looked_for_in_every_unit_of_time() -> None:
    ends = public_ends(18262.0)
    for longest in (1e-6, 0.02, 3.0, 4000.0):
        assert ends[np.searchsorted(ends, longest)] < 1.012 * longest
    assert ends[-1] > 18262.0


@given(
    whole=st.lists(st.integers(1, 5000), min_size=12, max_size=60, unique=True),
    factor=st.sampled_from([1.0, 1 / 1000, 365.25, 1 / 365.25, 1 / 12, 0.1, 7.0]),
)
def test_the_unit_is_found_in_any_unit_of_time_and_by_any_split(
    whole: list[int], factor: float
) -> None:
    times = factor * np.array(whole, dtype=float)
    unit = factor * float(np.gcd.reduce(whole))
    assert recorded_unit(times) == pytest.approx(unit, rel=1e-9)
    parts = [recorded_unit(part) for part in np.array_split(times, 5)]
    joint = partial(common_unit, longest=float(times.max()))
    assert reduce(joint, parts) == pytest.approx(unit, rel=1e-9)
    assert reduce(joint, parts[::-1]) == pytest.approx(unit, rel=1e-9)
    assert reduce(joint, [*parts, recorded_unit(np.empty(0))]) == pytest.approx(unit)


def test_units_too_fine_for_all_times_are_none_however_they_are_joined() -> None:
    """By days of a year and by months: a common measure there is, but nobody counts by it."""
    times = np.append(np.arange(1, 3000) / 365.25, 17.0 + np.arange(1, 40) / 12)
    cohorts = [
        Cohort(np.empty((n, 0)), t, t > 0)
        for n, t in ((2999, times[:2999]), (39, times[2999:]))
    ]
    query = RecordedUnit()
    joined = query.answer(cohorts[0]) + query.answer(cohorts[1])
    assert joined == query.answer(cohorts[1]) + query.answer(cohorts[0])
    assert joined.unit == recorded_unit(times) == EXACT
    thousandths, ones, far = (
        CommonUnit(0.001, 1.0),
        CommonUnit(1.0, 1.0),
        CommonUnit(200.0, 200.0),
    )
    assert (thousandths + ones) + far == thousandths + (ones + far)


def visits(unit: float, odd: int, even: int) -> list[float]:
    """So many times at odd multiples of a unit, and at even ones."""
    return [unit * (2 * k + 1) for k in range(odd)] + [unit * 2 * (k + 1) for k in range(even)]


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([*visits(7.0, 5, 4), 5.0], 7.0),  # nine of ten are whole weeks
        ([*visits(7.0, 4, 4), 5.0, 6.0], 1.0),
        (visits(360.0, 15, 15), 360.0),  # nobody counts so, but many did
        (visits(360.0, 15, 14), 1.0),
        (visits(14.0, 95, 5), 14.0),
        (visits(14.0, 96, 4), 1.0),  # not by chance so seldom at even multiples
    ],
)
def test_the_unit_of_a_sum_is_that_of_nearly_all_times(times: list[float], unit: float) -> None:
    assert FractionalTimes.of(np.array(times)).unit == unit


def test_exact_times_have_no_unit() -> None:
    times = np.random.default_rng(0).exponential(100.0, 50)
    assert recorded_unit(times) == EXACT
    assert common_unit(1.0, EXACT, longest=9.0) == EXACT


def test_named_bounds_begin_at_zero() -> None:
    assert named_bounds((30.0, 60.0), None, 90.0).tolist() == [0, 30, 60]  # type: ignore[union-attr]
    assert named_bounds((0.0, 60.0), None, 90.0).tolist() == [0, 60]  # type: ignore[union-attr]
    assert named_bounds(None, 40.0, 90.0).tolist() == [0, 40, 80, 90]  # type: ignore[union-attr]
    assert named_bounds(None, None, 90.0) is None


@pytest.mark.parametrize("horizon", [0.07, 1.0, 52.0, 1022.0, 18262.0])
def test_round_times_are_few_and_within(horizon: float) -> None:
    times = round_times(horizon)
    assert times[0] == 0
    assert 2 <= times.size <= 6
    assert times[-1] <= horizon * (1 + 1e-9)


# Pieces


def placed(pieces: Pieces, time: list[float], event: list[bool]) -> tuple[list[float], ...]:
    risk = pieces.at_risk(np.array(time, dtype=float), np.array(event))
    return risk.passed.tolist(), risk.event.tolist(), risk.part.round(6).tolist()


def test_a_patient_is_at_risk_by_the_share_of_the_piece_lived_through() -> None:
    exact = Pieces(np.array([0.0, 10.0, 30.0]))
    assert placed(exact, [5, 10, 15, 30, 31], [True, True, False, True, True]) == (
        [0, 0, 1, 1, 2],
        [True, True, False, True, False],
        [0.5, 1.0, 0.25, 1.0, 0.0],
    )


def test_a_recorded_day_stands_at_its_middle() -> None:
    days = Pieces(np.array([0.0, 10.0, 30.0]), 1.0)
    assert placed(days, [1, 10, 11, 30, 31], [True] * 5) == (
        [0, 0, 1, 1, 2],
        [True] * 4 + [False],
        [0.05, 0.95, 0.025, 0.975, 0.0],
    )
    years = Pieces(days.bounds / 365.25, 1 / 365.25)
    assert placed(years, [t / 365.25 for t in (1, 10, 11, 30, 31)], [True] * 5) == placed(
        days, [1, 10, 11, 30, 31], [True] * 5
    )


def test_tied_events_leave_one_after_the_other_as_efron_has_it() -> None:
    units = Pieces(np.array([0.0, 3.0, 4.0, 9.0]), 1.0)
    tied = units.with_ties(np.array([0.0, 4.0, 0.0]))
    assert tied.intervals == 6  # one before, four of the event time, one after
    risk = tied.at_risk(np.array([4.0, 4.0, 3.0, 9.0]), np.array([True, False, False, False]))
    assert risk.passed.tolist() == [1, 5, 1, 6]
    assert risk.copies is not None
    assert risk.copies.tolist() == [4, 1, 1, 1]
    assert tied.tied is not None
    at_risk, events = tied.tied.counts(np.array([20.0, 18.0, 9.0]), np.array([0.0, 4.0, 0.0]))
    # Efron's weights of those with the event: 1, 3/4, 1/2, 1/4.
    assert at_risk[1:5].tolist() == [18.0, 17.0, 16.0, 15.0]
    assert events[1:5].tolist() == [1.0] * 4
    many = units.with_ties(np.array([0.0, 1000.0, 0.0]))
    assert many.intervals == 2 + STEPS
    at_risk, _ = many.tied.counts(np.array([0.0, 2e3, 0.0]), np.array([0.0, 1e3, 0.0]))  # type: ignore[union-attr]
    efron = 2e3 - np.arange(1000).reshape(STEPS, -1).mean(axis=1)
    np.testing.assert_allclose(at_risk[1:-1], efron)
