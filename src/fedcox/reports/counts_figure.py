"""Patients and events: a bar or a row per center, and a heat map over centers and intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.markup import escape
from rich.table import Table

from fedcox.data.synthetic import SimulatedTable
from fedcox.reports.number_text import count_text, noun_text, short_text
from fedcox.reports.plot import equal_width
from fedcox.study.fit_rows import CenterRow
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.event_pieces import nice_step

MOST_CENTERS = 20
MOST_COLUMNS = 12
SMALL_CELL = 5


@dataclass(frozen=True)
class CenterChoice:
    """Centers shown by name, and the rest to be shown as a sum."""

    shown: tuple[CenterRow, ...]
    rest: tuple[CenterRow, ...]
    by_size: bool = True

    @property
    def rest_name(self) -> str:
        return f"{len(self.rest):,} {'smaller' if self.by_size else 'more'} centers"


def choose_centers(centers: Sequence[CenterRow], *, most: int = MOST_CENTERS) -> CenterChoice:
    """All centers in their order, or the largest ones where there are too many to read.

    Where sizes are not known, the first ones.
    """
    if len(centers) <= most + 1:  # a "rest" of one center would be a name withheld for nothing
        return CenterChoice(tuple(centers), ())
    sizes = known_sizes(centers)
    chosen = sorted(centers, key=lambda center: -(center.patients or 0)) if sizes else centers
    return CenterChoice(tuple(chosen[:most]), tuple(chosen[most:]), by_size=bool(sizes))


def known_sizes(centers: Sequence[CenterRow]) -> list[int] | None:
    """Patients of each center, or None where only sums over centers were seen."""
    sizes = [center.patients for center in centers if center.patients is not None]
    return sizes if len(sizes) == len(centers) else None


@dataclass(frozen=True, eq=False)
class IntervalTotals:
    """Patients at risk and events in each interval, over all centers."""

    at_risk: FloatArray
    events: FloatArray


def interval_totals(fitted: FittedStudy) -> IntervalTotals | None:
    """None where counts would break a guarantee."""
    at_risk = [row.at_risk for row in fitted.baseline]
    events = [row.events for row in fitted.baseline]
    if None in at_risk or None in events:
        return None
    return IntervalTotals(
        np.array(at_risk, dtype=np.float64), np.array(events, dtype=np.float64)
    )


@dataclass(frozen=True)
class CenterBar:
    """One center's counts; its bar in per cent of the longest, events in per cent of it."""

    name: str
    patients: str
    events: str
    share: str
    bar: float
    event_bar: float
    dropped: str
    filled: str


@dataclass(frozen=True)
class CenterBars:
    """Bars of the centers shown; `everyone` lists all centers where the bars do not."""

    bars: tuple[CenterBar, ...]
    rest: CenterBar | None
    spread: str
    everyone: tuple[CenterBar, ...]
    any_dropped: bool
    any_filled: bool


@dataclass(frozen=True)
class HeatCell:
    """Events in a stretch of time and patients at risk when it began; heat from 0 to 100."""

    events: str
    at_risk: str
    heat: int


@dataclass(frozen=True)
class HeatRow:
    name: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True)
class HeatMap:
    """Rows of centers, columns of one or more intervals, and the sums over all centers."""

    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    total: HeatRow
    joined: bool
    small_cells: bool


def center_bars(fitted: FittedStudy) -> CenterBars | None:
    """Every center, or the largest and a sum of the others; None where none was seen alone."""
    sizes = known_sizes(fitted.centers)
    if sizes is None:
        return None
    choice = choose_centers(fitted.centers)
    longest = max(sizes, default=0)
    rest = _sum_of(choice.rest, choice.rest_name) if choice.rest else None
    spread = ""
    if choice.rest:
        middle = short_text(float(np.median(sizes)))
        spread = (
            f"{noun_text(len(sizes), 'center')} with {count_text(min(sizes))} to "
            f"{count_text(max(sizes))} patients each, {middle} in the middle."
        )
    return CenterBars(
        bars=tuple(_bar(center, longest) for center in choice.shown),
        rest=None if rest is None else _bar(rest, 0),
        spread=spread,
        everyone=tuple(_bar(center, 0) for center in fitted.centers) if choice.rest else (),
        any_dropped=any(sum(center.dropped.values()) for center in fitted.centers),
        any_filled=any(sum(center.filled.values()) for center in fitted.centers),
    )


def _bar(center: CenterRow, longest: int) -> CenterBar:
    patients, events = center.patients or 0, center.events or 0
    return CenterBar(
        name=center.name,
        patients=count_text(patients),
        events=count_text(events),
        share=f"{100 * events / patients:.0f} %" if patients else "–",
        bar=round(100 * patients / longest, 2) if longest else 0.0,
        event_bar=round(100 * events / patients, 2) if patients else 0.0,
        dropped=_named_counts(center.dropped),
        filled=_named_counts(center.filled),
    )


def _named_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)


def _sum_of(centers: Sequence[CenterRow], name: str) -> CenterRow:
    dropped: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    for center in centers:
        dropped.update(center.dropped)
        filled.update(center.filled)
    known = [center for center in centers if center.interval_events is not None]
    whole = len(known) == len(centers)
    return CenterRow(
        name=name,
        patients=sum(center.patients or 0 for center in centers),
        events=sum(center.events or 0 for center in centers),
        dropped=dropped,
        interval_at_risk=_added([center.interval_at_risk for center in known], whole),
        interval_events=_added([center.interval_events for center in known], whole),
        filled=filled,
    )


def _added(rows: Sequence[Sequence[float] | None], whole: bool) -> list[float] | None:
    if not whole or any(row is None for row in rows):
        return None
    total: list[float] = np.sum([np.asarray(row) for row in rows], axis=0).tolist()
    return total


def heat_map(fitted: FittedStudy) -> HeatMap | None:
    """Events and patients at risk per center and stretch of time; None where none is told."""
    ends = fitted.interval_ends
    counts = interval_totals(fitted)
    if counts is None:
        return None
    first, headings = joined_columns(ends, instants=bool(fitted.study.grid.times))
    choice = choose_centers(fitted.centers)
    centers = list(choice.shown)
    if choice.rest:
        centers.append(_sum_of(choice.rest, choice.rest_name))
    named = [
        (center.name, np.asarray(center.interval_events), np.asarray(center.interval_at_risk))
        for center in centers
        if center.interval_events is not None and center.interval_at_risk is not None
    ]
    sums = [np.add.reduceat(events, first) for _, events, _ in named]
    begin = [at_risk[first] for _, _, at_risk in named]
    hottest = max((float(row.max()) for row in sums[: len(choice.shown)]), default=0.0)
    total_events = np.add.reduceat(counts.events, first)
    total_begin = counts.at_risk[first]
    return HeatMap(
        columns=headings,
        rows=tuple(
            HeatRow(name, _cells(events, at_risk, hottest))
            for (name, _, _), events, at_risk in zip(named, sums, begin, strict=True)
        ),
        total=HeatRow("All centers", _cells(total_events, total_begin, 0.0)),
        joined=len(first) < ends.size,
        small_cells=any(_has_small(row) for row in begin or [total_begin]),
    )


def joined_columns(
    ends: FloatArray, *, instants: bool = True
) -> tuple[IntArray, tuple[str, ...]]:
    """The first interval of each column, and each column's heading: the time it goes up to.

    At most `MOST_COLUMNS` columns. Intervals of one width are joined by the same number, single
    instants by the same time.
    """
    if ends.size <= MOST_COLUMNS or equal_width(ends) is not None:
        first = np.arange(0, ends.size, -(-ends.size // MOST_COLUMNS), dtype=np.int64)
        last_ends = ends[np.append(first[1:] - 1, ends.size - 1)]
    else:
        step = nice_step(float(ends[-1]), MOST_COLUMNS)
        stretch = np.ceil(ends / step * (1 - 1e-12))
        first = np.append(0, np.flatnonzero(np.diff(stretch)) + 1).astype(np.int64)
        last_ends = step * stretch[first]
        if not instants:  # only at its own ends is it known how many had the event
            last_ends = ends[np.append(first[1:] - 1, ends.size - 1)]
    return first, tuple(short_text(float(end)) for end in last_ends)


def _has_small(at_risk: FloatArray) -> bool:
    return bool(((at_risk > 0) & (at_risk < SMALL_CELL)).any())


def _cells(events: FloatArray, at_risk: FloatArray, hottest: float) -> tuple[HeatCell, ...]:
    return tuple(
        HeatCell(
            events=count_text(float(happened)),
            at_risk=count_text(float(begun)),
            # The root keeps a few events visible beside many.
            heat=round(100 * min(1.0, float(happened) / hottest) ** 0.5) if hottest else 0,
        )
        for happened, begun in zip(events, at_risk, strict=True)
    )


def simulation_table(study: Study, simulated: SimulatedTable) -> Table:
    """One row per hospital; where there are many, the small ones are one row."""
    counts = simulated.frame.groupby("hospital", sort=True)["status"].agg(["size", "sum"])
    hospitals = [
        CenterRow(str(name), int(size), int(events))
        for name, size, events in counts.itertuples()
    ]
    choice = choose_centers(hospitals)
    rows = [(row.name, row.patients or 0, row.events or 0) for row in choice.shown]
    if choice.rest:
        rest = [(row.patients or 0, row.events or 0) for row in choice.rest]
        rows.append((choice.rest_name, sum(n for n, _ in rest), sum(n for _, n in rest)))
    table = Table("hospital", title=escape(study.name), title_justify="left")
    table.add_column("patients", justify="right")
    table.add_column("events", justify="right")
    for name, patients, events in rows:
        table.add_row(name, f"{patients:,}", f"{events:,}")
    return table
