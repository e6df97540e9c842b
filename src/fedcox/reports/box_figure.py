"""Box plots: one row per scheme, one panel per data set, all on one axis.

Places are in per cent of the axis, so that a page may draw the figure at any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.reports.axis import Tick, ValueAxis, plain_axis
from fedcox.reports.number_text import finite
from fedcox.survival.cohort import FloatArray

#: Whiskers end at the last value within this many lengths of the box, as Tukey drew them.
REACH = 1.5
#: The band around a row's middle in which single values lie, in per cent of its height.
BAND = 56.0
#: Quartiles of fewer values than this say nothing that the values do not.
FEWEST_FOR_BOX = 5

#: How a row is drawn: as any, as one that matters most, or as one to beware of.
Look = Literal["plain", "marked", "leaks"]


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
class Box:
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
    box: Box | None
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
            BoxPanel(panel.title, tuple(_row(sample, axis, source) for sample in panel.samples))
            for panel in panels
        ),
        axis.place(chance) if axis.low <= chance <= axis.high else None,
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for raw in values if (value := finite(raw)) is not None]


def _row(sample: Sample, axis: ValueAxis, source: str) -> BoxRow:
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


def _box(values: FloatArray, axis: ValueAxis) -> Box:
    first, median, third = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = REACH * (third - first)
    within = values[(values >= first - reach) & (values <= third + reach)]
    low, high = float(within.min()), float(within.max())
    return Box(*(axis.place(value) for value in (low, first, median, third, high)))


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
