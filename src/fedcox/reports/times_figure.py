"""How long patients were followed in each center: one histogram per center, on one time axis.

Bars never describe fewer patients than agreed: neighbours are joined until they hold enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.reports.axis import Tick, ValueAxis
from fedcox.reports.number_text import count_text, noun_text, percent_text, short_text
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.event_pieces import nice_step

#: The fewest patients that a bar of real data may describe.
FEWEST = 5
FEWEST_BARS, MOST_BARS = 20, 48
#: Where the longest follow-up is beyond this many times the bulk, the axis ends at the bulk.
_FAR = 2.0
_BULK = 0.95


@dataclass(frozen=True)
class Bar:
    """Patients followed for a time in (low, high]; `high` is infinite in an open last bar."""

    low: float
    high: float
    patients: int


@dataclass(frozen=True)
class TimesRow:
    """One center: its bars as a path in a field of 1000 by 100, and its size in words.

    The height of a bar is patients per time, and the tallest of each center fills the row.
    """

    center: str
    size: str
    bars: tuple[Bar, ...]
    path: str
    words: str


@dataclass(frozen=True)
class TimesFigure:
    """Rows on one axis; `cut` says that the last bars hold all later times as well."""

    rows: tuple[TimesRow, ...]
    ticks: tuple[Tick, ...]
    unit: str
    cut: bool
    fewest: int


def times_figure(
    centers: Mapping[str, Cohort], *, unit: str, fewest: int = FEWEST
) -> TimesFigure:
    """The histograms of all centers, on bars that hold `fewest` patients or none.

    Times of simulated patients may be shown one by one: `fewest` 1.
    """
    every = np.concatenate([center.time for center in centers.values()])
    usual = float(np.median([center.patients for center in centers.values()]))
    edges, axis, cut = _time_axis(every, bars=round(2 * usual ** (1 / 3)))  # Rice's rule
    end = float(edges[-1])
    return TimesFigure(
        rows=tuple(
            _row(name, center, _bars(center.time, edges, fewest, cut=cut), end, fewest)
            for name, center in centers.items()
        ),
        ticks=axis.ticks,
        unit=unit,
        cut=cut,
        fewest=fewest,
    )


def joined(counts: Sequence[int], fewest: int) -> list[tuple[int, int, int]]:
    """Neighbouring bins joined until each holds `fewest` patients or none.

    Gives first bin, one past the last, and patients. Fewer than `fewest` in all give nothing.
    """
    groups: list[tuple[int, int, int]] = []
    first = past = patients = 0
    for number, count in enumerate(counts):
        if not count:
            continue
        if not patients:
            first = number
        patients, past = patients + count, number + 1
        if patients >= fewest:
            groups.append((first, past, patients))
            patients = 0
    if patients and groups:  # too few at the end: they join those before them
        start, _, before = groups.pop()
        groups.append((start, past, before + patients))
    return groups


def _time_axis(times: FloatArray, *, bars: int) -> tuple[FloatArray, ValueAxis, bool]:
    """Edges of equal bins from zero to a round time, which is no single patient's."""
    longest = float(times.max()) if times.size else 0.0
    bulk = float(np.quantile(times, _BULK)) if times.size else 0.0
    cut = 0.0 < _FAR * bulk < longest
    last = (bulk if cut else longest) or 1.0
    step = nice_step(last, 5)
    end = step * math.ceil(last / step)
    steps = round(end / step)
    # Each step of the axis in a whole number of bars, so that ticks are edges.
    parts = max(1, round(min(MOST_BARS, max(FEWEST_BARS, bars)) / steps))
    edges = np.linspace(0.0, end, steps * parts + 1)
    ticks = [(tick, short_text(tick)) for tick in (step * np.arange(steps + 1)).tolist()]
    return edges, ValueAxis(0.0, end, ()).with_ticks(ticks), cut


def _row(name: str, center: Cohort, bars: tuple[Bar, ...], end: float, fewest: int) -> TimesRow:
    patients = center.patients
    if not bars:
        size = f"fewer than {noun_text(fewest, 'patient')}: not shown"
        return TimesRow(name, size, (), "", f"{name}: {size}.")
    size = f"{noun_text(patients, 'patient')}, {_events_text(center, fewest)}"
    most = max(bars, key=lambda bar: bar.patients)
    until = "and more" if math.isinf(most.high) else f"to {short_text(most.high)}"
    words = (
        f"{name}: {size}; the fullest bar holds {count_text(most.patients)}, "
        f"from {short_text(most.low)} {until}."
    )
    return TimesRow(name, size, bars, _path(bars, end), words)


def _events_text(center: Cohort, fewest: int) -> str:
    """The share with the event; none from which fewer than `fewest` patients can be told."""
    events = int(center.event.sum())
    if fewest > 1 and events < fewest:
        return f"fewer than {fewest} events"
    if fewest > 1 and center.patients - events < fewest:
        return f"fewer than {fewest} without the event"
    return f"{percent_text(events / center.patients)} events"


def _bars(times: FloatArray, edges: FloatArray, fewest: int, *, cut: bool) -> tuple[Bar, ...]:
    # Intervals are closed on the right, as a study's are; time zero belongs to the first.
    place = np.clip(np.searchsorted(edges, times, side="left") - 1, 0, edges.size - 2)
    counts: IntArray = np.bincount(place, minlength=edges.size - 1)
    return tuple(
        Bar(
            float(edges[first]),
            math.inf if cut and past == counts.size else float(edges[past]),
            patients,
        )
        for first, past, patients in joined(counts.tolist(), fewest)
    )


def _path(bars: Sequence[Bar], end: float) -> str:
    """Closed boxes that stand on the lower edge of the row."""
    spans = [(bar.low, min(bar.high, end), bar.patients) for bar in bars]
    densities = [patients / (high - low) for low, high, patients in spans]
    tallest = max(densities, default=1.0)
    parts = []
    for (low, high, _), density in zip(spans, densities, strict=True):
        left, right = 1000 * low / end, 1000 * high / end
        top = 100 * (1 - density / tallest)
        parts.append(f"M{left:.1f} 100V{top:.1f}H{right:.1f}V100Z")
    return "".join(parts)
