"""Patients and events per center and interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcox.analysis.fitted import CenterRow
from fedcox.reports.counts_figure import MOST_COLUMNS, center_bars, heat_map, joined_columns
from fedcox.reports.study_report import report_html
from tests import fitted_examples as examples


def whole(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("intervals", [1, 2, 12, 13, 36, 365, 28_000])
def test_equal_intervals_are_joined_evenly(intervals: int) -> None:
    first, headings = joined_columns(np.arange(1, intervals + 1, dtype=np.float64) * 30)
    assert len(first) == len(headings) <= MOST_COLUMNS
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
    heat = heat_map(fitted)
    for row, center in zip(heat.rows, fitted.centers, strict=True):
        assert sum(whole(cell.events) for cell in row.cells) == center.events
        assert whole(row.cells[0].at_risk) == center.patients
    assert sum(whole(cell.events) for cell in heat.total.cells) == fitted.events
    assert heat.joined


def test_a_thousand_centers_are_the_largest_and_a_sum() -> None:
    fitted = examples.many_centers()
    bars, heat = center_bars(fitted), heat_map(fitted)
    assert len(bars.bars) == 20
    assert bars.rest is not None
    assert bars.rest.name == heat.rows[-1].name == "980 smaller centers"
    shown = sum(whole(bar.patients) for bar in bars.bars)
    assert shown + whole(bars.rest.patients) == fitted.patients
    assert len(bars.everyone) == 1000
    assert sum(whole(cell.events) for row in heat.rows for cell in row.cells) == fitted.events


def test_few_centers_keep_their_order_and_the_largest_has_the_longest_bar() -> None:
    bars = center_bars(examples.lung())
    assert [bar.name for bar in bars.bars] == [f"Hospital {i}" for i in range(1, 6)]
    assert max(bar.bar for bar in bars.bars) == 100.0
    assert bars.rest is None
    assert bars.everyone == ()


def test_an_empty_center_has_an_empty_bar() -> None:
    empty = CenterRow("Closed ward", 0, 0, {}, [0.0] * 36, [0] * 36)
    fitted = replace(examples.lung(), centers=(*examples.lung().centers, empty))
    bar = center_bars(fitted).bars[-1]
    assert (bar.bar, bar.event_bar, bar.share) == (0.0, 0.0, "–")
    assert heat_map(fitted).rows[-1].cells[0].heat == 0


def test_centers_that_told_no_intervals_leave_the_total() -> None:
    fitted = examples.lung()
    silent = tuple(
        replace(center, interval_events=None, interval_at_risk=None)
        for center in fitted.centers
    )
    heat = heat_map(replace(fitted, centers=silent))
    assert heat.rows == ()
    assert "counts per center were not kept" in report_html(replace(fitted, centers=silent))
    assert sum(whole(cell.events) for cell in heat.total.cells) == fitted.events


def test_small_cells_are_pointed_out() -> None:
    assert heat_map(examples.lung()).small_cells
    assert not heat_map(examples.nothing_estimable()).small_cells
