"""Patients and events per center and interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcox.reports.counts_figure import (
    MOST_COLUMNS,
    CenterBars,
    HeatMap,
    center_bars,
    choose_centers,
    heat_map,
    joined_columns,
)
from fedcox.reports.study_report import report_html
from fedcox.study.fit_rows import CenterRow
from fedcox.study.fitted import FittedStudy
from tests import fitted_examples as examples


def whole(text: str) -> int:
    return int(text.replace(",", ""))


def heat_of(fitted: FittedStudy) -> HeatMap:
    heat = heat_map(fitted)
    assert heat is not None
    return heat


def bars_of(fitted: FittedStudy) -> CenterBars:
    bars = center_bars(fitted)
    assert bars is not None
    return bars


@pytest.mark.parametrize(
    ("intervals", "columns"),
    [(1, 1), (2, 2), (12, 12), (13, 7), (36, 12), (365, 12), (28_000, 12)],
)
def test_equal_intervals_are_joined_evenly(intervals: int, columns: int) -> None:
    first, headings = joined_columns(np.arange(1, intervals + 1, dtype=np.float64) * 30)
    assert len(first) == len(headings) == columns
    assert len(set(np.diff(first).tolist())) <= 1
    assert whole(headings[-1]) == 30 * intervals


def test_event_times_are_joined_by_time() -> None:
    ends = np.sort(np.random.default_rng(1).exponential(500.0, 4000))
    first, headings = joined_columns(ends)
    assert 3 <= len(first) <= MOST_COLUMNS
    assert first[0] == 0
    for begin, heading in zip(first[1:], headings, strict=False):
        assert ends[begin - 1] <= whole(heading) < ends[begin]


def test_joining_loses_no_event() -> None:
    fitted = examples.every_event_time(3000, centers=3)
    heat = heat_of(fitted)
    for row, center in zip(heat.rows, fitted.centers, strict=True):
        assert sum(whole(cell.events) for cell in row.cells) == center.events
        assert whole(row.cells[0].at_risk) == center.patients
    assert sum(whole(cell.events) for cell in heat.total.cells) == fitted.events
    assert heat.joined


def test_a_thousand_centers_are_the_largest_and_a_sum() -> None:
    fitted = examples.many_centers()
    bars, heat = bars_of(fitted), heat_of(fitted)
    assert len(bars.bars) == 20
    assert bars.rest is not None
    assert bars.rest.name == heat.rows[-1].name == "980 smaller centers"
    shown = sum(whole(bar.patients) for bar in bars.bars)
    assert shown + whole(bars.rest.patients) == fitted.patients
    assert len(bars.everyone) == 1000
    assert sum(whole(cell.events) for row in heat.rows for cell in row.cells) == fitted.events


def test_few_centers_keep_their_order_and_the_largest_has_the_longest_bar() -> None:
    bars = bars_of(examples.lung())
    assert [bar.name for bar in bars.bars] == [f"Hospital {i}" for i in range(1, 6)]
    assert max(bar.bar for bar in bars.bars) == 100.0
    for bar, center in zip(bars.bars, examples.lung().centers, strict=True):
        assert (whole(bar.patients), whole(bar.events)) == (center.patients, center.events)
        assert bar.share == f"{bar.event_bar:.0f} %"
        assert bar.event_bar == pytest.approx(
            100 * whole(bar.events) / whole(bar.patients), abs=0.01
        )
    assert bars.rest is None
    assert bars.everyone == ()


def test_an_empty_center_has_an_empty_bar() -> None:
    empty = CenterRow("Closed ward", 0, 0, {}, [0.0] * 36, [0] * 36)
    fitted = replace(examples.lung(), centers=(*examples.lung().centers, empty))
    bar = bars_of(fitted).bars[-1]
    assert (bar.bar, bar.event_bar, bar.share) == (0.0, 0.0, "–")
    assert heat_of(fitted).rows[-1].cells[0].heat == 0


def test_centers_that_told_no_intervals_leave_the_total() -> None:
    fitted = examples.lung()
    silent = tuple(
        replace(center, interval_events=None, interval_at_risk=None)
        for center in fitted.centers
    )
    heat = heat_of(replace(fitted, centers=silent))
    assert heat.rows == ()
    assert "counts per center were not kept" in report_html(replace(fitted, centers=silent))
    assert sum(whole(cell.events) for cell in heat.total.cells) == fitted.events


def test_small_cells_are_pointed_out() -> None:
    assert heat_of(examples.lung()).small_cells
    assert not heat_of(examples.nothing_estimable()).small_cells


@pytest.mark.parametrize("centers", [5, 1000])
def test_under_secure_sums_there_are_totals_alone(centers: int) -> None:
    plain = examples.many_centers(centers)
    fitted = examples.under_secure_sums(plain)
    assert center_bars(fitted) is None
    heat = heat_of(fitted)
    assert heat.rows == ()
    assert heat.total == heat_of(plain).total
    assert sum(whole(cell.events) for cell in heat.total.cells) == plain.events


def test_small_cells_of_the_total_are_pointed_out_too() -> None:
    fitted = examples.secure_sums()
    assert not heat_of(fitted).small_cells
    for at_risk, small in ((5.0, False), (4.0, True)):
        last = replace(fitted.baseline[33], at_risk=at_risk)
        thin = replace(fitted, baseline=(*fitted.baseline[:33], last, *fitted.baseline[34:]))
        assert heat_of(thin).small_cells == small


def test_under_differential_privacy_nothing_is_counted() -> None:
    fitted = examples.differentially_private()
    assert center_bars(fitted) is None
    assert heat_map(fitted) is None


def test_centers_of_unknown_size_keep_their_order() -> None:
    known, unknown = examples.many_centers(30), examples.many_centers(30)
    choice = choose_centers(examples.under_secure_sums(unknown).centers)
    assert [row.name for row in choice.shown] == [row.name for row in known.centers[:20]]
    assert choice.rest_name == "10 more centers"
    assert choose_centers(known.centers).rest_name == "10 smaller centers"
