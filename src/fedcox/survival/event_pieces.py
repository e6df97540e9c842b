"""Where to cut time into pieces: about as many events in each, from counts on finer cells.

Everything here is a function of public numbers and of sums over all patients, so that the
pieces are the same however patients are split over centers.
"""

from __future__ import annotations

import math

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.time_grid import ROUNDING, regular_edges

#: At most so many steps of a time axis, and of its table of patients at risk.
MOST_STEPS = 5
#: Cells of a public grid are one unit wide up to so many units, then this share of the time.
_SINGLE_UNITS = 200
_SHARE = 1.0 / _SINGLE_UNITS
#: Where no unit is known, a horizon counts as so many.
_UNITS = 20_000
#: Times recorded in finer units than this share of the longest are as good as exact.
_FINEST_UNIT = 1e-5
#: In place of a unit: times are in none.
EXACT = -1.0
#: Cells over which events are counted for how dense they are.
_NEIGHBOURS = 15
#: Times without a unit most often show it among the first so many.
_SOME = 1000


def nice_step(span: float, most: int) -> float:
    """The smallest step of 1, 2, 2.5 or 5 times a power of ten that fits `most` times."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(
        factor * power
        for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0)
        if factor * power >= rough * (1 - 1e-9)
    )


def round_times(horizon: float) -> FloatArray:
    """Times from zero on at which a table tells how many are at risk, the horizon not passed.

    >>> round_times(1022.0)
    array([   0.,  250.,  500.,  750., 1000.])
    """
    step = nice_step(horizon, MOST_STEPS)
    return step * np.arange(np.floor(horizon / step * (1 + 1e-9)) + 1)


def named_bounds(
    edges: tuple[float, ...] | None, width: float | None, horizon: float
) -> FloatArray | None:
    """The bounds that a study names, from zero on; None where it names none."""
    if edges is not None:
        return np.append(0.0, [edge for edge in edges if edge > 0])
    if width is None:
        return None
    bounds = np.append(0.0, regular_edges(width, horizon))
    # Three widths of 0.3 are 0.8999999999999999, and an event at 0.9 is no later.
    bounds[:-1] = np.round(bounds[:-1], 12 - math.ceil(math.log10(horizon)))
    return bounds


def public_cells(horizon: float, unit: float | None) -> FloatArray:
    """Bounds of cells from zero to `horizon`, fine enough to cut pieces from.

    Each is a whole number of units wide, and half a per cent of the time or one unit.
    """
    single = horizon / _UNITS if unit is None else unit
    last = max(1, int(np.floor(horizon / single + ROUNDING)))
    steps = int(np.ceil(np.log(max(last / _SINGLE_UNITS, 1.0)) / np.log1p(_SHARE)))
    later = _SINGLE_UNITS * (1.0 + _SHARE) ** np.arange(steps + 1)
    cells = np.unique(np.rint(np.append(np.arange(_SINGLE_UNITS), later)))
    cells = np.append(cells[cells < last], last) * single
    if unit is None:
        cells[-1] = horizon
    return np.asarray(cells)


def public_ends(longest: float) -> FloatArray:
    """Ends of cells to find the end of follow-up on, whatever the unit of time is.

    Each is one per cent longer than the one before, from next to nothing to `longest`; one more
    is for what lies beyond.
    """
    return np.append(np.geomspace(1e-12 * longest, longest, 2800), 2.0 * longest)


def cut_by_events(events: FloatArray, *, most: int, least: int = 1) -> IntArray:
    """Which bounds of the cells, by their places, close pieces with as many events each.

    At most `most` pieces, with at least `least` events each where there are so many at all.
    The first begins with the first cell that has an event, the last ends with the last such.
    """
    happened = np.flatnonzero(events)
    if happened.size <= most and least <= 1:
        return np.append(happened[0], happened + 1)
    # Events up to each of these cells, half of its own included: it goes to the piece whose
    # share it leaves nearer.
    at_cell = events[happened]
    before = np.cumsum(at_cell) - at_cell
    middle, total = before + 0.5 * at_cell, float(at_cell.sum())
    pieces = max(1, min(most, int(total // least)))
    begun, kept = 0.0, [int(happened[0])]
    for left in range(pieces, 1, -1):
        aim = begun + max(float(least), (total - begun) / left)
        first = max(
            int(np.searchsorted(middle, aim, side="right")),
            int(np.searchsorted(before, begun + least)),
        )
        if first == happened.size:
            break
        begun = float(before[first])
        kept.append(int(happened[first - 1]) + 1)
    if total - begun < least and len(kept) > 1:  # too few are left: the last two are one
        kept.pop()
    return np.array([*kept, int(happened[-1]) + 1])


def occupied(events: FloatArray, widths: FloatArray) -> float:
    """How many cells have events, over how many would if events came one by one.

    Far below one where times are recorded in longer units than the cells are wide. One where
    there are too few cells between the first event and the last to tell.
    """
    happened = np.flatnonzero(events)
    if happened.size == 0 or happened[-1] - happened[0] < 3 * _NEIGHBOURS:
        return 1.0
    between = slice(happened[0], happened[-1] + 1)
    events, widths = events[between], widths[between]
    near = np.ones(_NEIGHBOURS)
    density = np.convolve(events, near, "same") / np.convolve(widths, near, "same")
    return float(np.count_nonzero(events) / -np.expm1(-density * widths).sum())


def join_empty(events: FloatArray) -> IntArray:
    """Which bounds remain, by their places, if a piece without events joins the next.

    Not those before the first event, or after the last: each of these stays whole and empty,
    for time in which nothing can happen would make the hazard of its neighbour too small.
    """
    ends = np.flatnonzero(events) + 1
    return np.union1d([0, ends[0] - 1, events.size], ends)


def recorded_unit(times: FloatArray) -> float:
    """The largest unit of which all times are whole numbers; `EXACT` where there is none.

    Days, or tenths of a month, or days divided by 365.25. Zero where there are no times above
    zero, so that any unit will do.
    """
    times = times[times > 0]
    if not times.size:
        return 0.0
    longest = float(times.max())
    if times.size > _SOME and _unit_of(np.unique(times[:_SOME]), longest) == EXACT:
        return EXACT
    return _unit_of(np.unique(times), longest)


def _unit_of(times: FloatArray, longest: float) -> float:
    """The same of distinct times, in their order, some or all."""
    unit = longest
    for place, time in enumerate(times):  # most often the first few tell
        measure = _common_measure(unit, float(time), least=_FINEST_UNIT * longest)
        if not measure:
            return EXACT
        if (
            measure < (1.0 - ROUNDING) * unit
        ):  # rounding grows from step to step, unless averaged
            unit = _averaged(measure, times[: place + 1])
    unit = _averaged(unit, times)
    return (
        unit if np.abs(times - np.rint(times / unit) * unit).max() <= ROUNDING * unit else EXACT
    )


def _averaged(unit: float, times: FloatArray) -> float:
    """The unit that fits all of these times best."""
    whole = np.rint(times / unit)
    return float(times @ whole / (whole @ whole))


def common_unit(one: float, other: float, longest: float) -> float:
    """The largest unit that both are whole numbers of; `EXACT` where there is none.

    `longest` is the longest of all times that they are units of.
    """
    if EXACT in (one, other):
        return EXACT
    units = np.unique([unit for unit in (one, other) if unit > 0])
    return _unit_of(units, longest) if units.size else 0.0


def _common_measure(one: float, other: float, *, least: float) -> float:
    """Euclid's algorithm on numbers that are rounded; zero where it falls below `least`."""
    while other > 1e-9 * one + 1e-3 * least:
        one, other = other, abs(one - other * round(one / other))
    return one if one >= least else 0.0
