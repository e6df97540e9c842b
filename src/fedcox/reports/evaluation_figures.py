"""The figures of an evaluation: how long patients were followed, and scores as box plots.

Places are in per cent of the axis, so that a page may draw a figure at any width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.reports.number_text import count_text, finite, noun_text, percent_text, short_text
from fedcox.reports.plot import Tick, ValueAxis, plain_axis
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.event_pieces import nice_step

#: The fewest patients that a bar of real data may describe.
FEWEST = 5
FEWEST_BARS, MOST_BARS = 20, 48
#: Where the longest follow-up is beyond this many times the bulk, the axis ends at the bulk.
_FAR = 2.0
_BULK = 0.95
#: Whiskers end at the last value within this many lengths of the box, as Tukey drew them.
REACH = 1.5
#: The band around a row's middle in which single values lie, in per cent of its height.
BAND = 56.0
#: Quartiles of fewer values than this say nothing that the values do not.
FEWEST_FOR_BOX = 5
#: How a row is drawn: as any, as one that matters most, or as one to beware of.
Look = Literal["plain", "marked", "leaks"]


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

    One histogram for each center, all on one time axis. Bars never describe fewer patients than
    agreed: neighbours are joined until they hold enough.
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


@dataclass(frozen=True)
class Sample:
    """What to draw in one row: values, and perhaps the value that was expected."""

    label: str
    values: Sequence[float]
    look: Look = "plain"
    expected: float | None = None


@dataclass(frozen=True)
class SamplePanel:
    """Rows that belong together, such as all schemes on one data set."""

    title: str
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Dot:
    """One value: its place along the axis and its height within the row."""

    place: float
    height: float


@dataclass(frozen=True)
class BoxPlot:
    """The five places of a box: whisker, quartile, median, quartile, whisker."""

    low: float
    first: float
    median: float
    third: float
    high: float

    @property
    def width(self) -> float:
        return round(self.third - self.first, 2)


@dataclass(frozen=True)
class BoxRow:
    """One row; `box` is None where values are few. `words` says the same in numbers."""

    label: str
    look: Look
    box: BoxPlot | None
    dots: tuple[Dot, ...]
    expected: float | None
    words: str


@dataclass(frozen=True)
class BoxPanel:
    title: str
    rows: tuple[BoxRow, ...]


@dataclass(frozen=True)
class BoxFigure:
    """Panels over one axis; `chance` is the place of a worthless score, if that is on it."""

    axis: ValueAxis
    panels: tuple[BoxPanel, ...]
    chance: float | None

    @property
    def ticks(self) -> tuple[Tick, ...]:
        return self.axis.ticks

    @property
    def any_expected(self) -> bool:
        return any(row.expected is not None for panel in self.panels for row in panel.rows)


def box_figure(
    panels: Sequence[SamplePanel], *, chance: float = 0.5, source: str = "expected"
) -> BoxFigure:
    """Boxes on one axis that holds every value; values that are no numbers are left out.

    `source` says in words where expected values come from.
    """
    shown = [
        value
        for panel in panels
        for sample in panel.samples
        for value in (*_known(sample.values), *_known([sample.expected]))
    ]
    axis = plain_axis(shown or [0.0, 1.0], most=6)
    return BoxFigure(
        axis,
        tuple(
            BoxPanel(
                panel.title, tuple(_box_row(sample, axis, source) for sample in panel.samples)
            )
            for panel in panels
        ),
        axis.place(chance) if axis.low <= chance <= axis.high else None,
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for raw in values if (value := finite(raw)) is not None]


def _box_row(sample: Sample, axis: ValueAxis, source: str) -> BoxRow:
    values = np.array(_known(sample.values))
    expected = finite(sample.expected)
    return BoxRow(
        sample.label,
        sample.look,
        _box(values, axis) if values.size >= FEWEST_FOR_BOX else None,
        tuple(
            Dot(axis.place(value), round(50 + BAND * (_spread(number) - 0.5), 1))
            for number, value in enumerate(values.tolist(), start=1)
        ),
        None if expected is None else axis.place(expected),
        _words(sample.label, values)
        + ("" if expected is None else f" {source}: {expected:.3f}."),
    )


def _box(values: FloatArray, axis: ValueAxis) -> BoxPlot:
    first, median, third = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = REACH * (third - first)
    within = values[(values >= first - reach) & (values <= third + reach)]
    low, high = float(within.min()), float(within.max())
    return BoxPlot(*(axis.place(value) for value in (low, first, median, third, high)))


def _spread(number: int) -> float:
    """Van der Corput's sequence: between 0 and 1, evenly, and the same in every run."""
    value, share = 0.0, 0.5
    while number:
        value += share * (number % 2)
        number //= 2
        share /= 2
    return value


def _words(label: str, values: FloatArray) -> str:
    if not values.size:
        return f"{label}: no value."
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    words = [f"{label}: median {median:.3f}"]
    if values.size >= FEWEST_FOR_BOX:
        words.append(f"quartiles {first:.3f} and {third:.3f}")
    words += [f"range {values.min():.3f} to {values.max():.3f}", f"{values.size} in all."]
    return ", ".join(words)
