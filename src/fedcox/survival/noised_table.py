"""A life table under noise, and how time is cut into pieces by it.

The table is about public cells. Pieces are made of whole cells, each with so many events that
they stand out of the noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.time_grid import Pieces

#: Events a piece, and how many pieces.
_EVENTS, _FEWEST, _MOST = 80.0, 4, 24
#: Cells of the life table for each piece; those at the beginning are narrower.
_CELLS, _NARROWER = 8, 1.7
#: Noise explains so many of its standard deviations.
SURE = 4.0
#: Follow-up ends where fewer patients are left than so many errors of their number.
_CLEAR_PATIENTS = 2.5
#: A piece has as many events as so many errors of their number, and for each event is lived
#: through by so many patients.
_CLEAR_EVENTS, _LEAST_AT_RISK = 3.0, 0.2
#: No fewer patients are reckoned with than this part of those that were planned.
_FEWEST_PATIENTS = 0.2


class NoisedTable(NamedTuple):
    """What the table gave: pieces, and in each about how many events and at risk.

    `clear` says whether the number of events stands out of its noise.
    """

    pieces: Pieces
    events: FloatArray
    at_risk: FloatArray
    patients: float
    clear: bool

    @classmethod
    def of(
        cls, counts: FloatArray, noise: float, cells: Pieces, wanted: int | None, planned: int
    ) -> NoisedTable:
        """From the counts of who leaves in each cell, with and without the event.

        Time is cut into as many pieces as are wanted; with none, cells are the pieces.
        """
        without, happened = counts.reshape(2, -1)
        gone = without + happened
        reached = np.cumsum(gone[::-1])[::-1][1:]
        last = _followed(reached, noise)
        events, widths = happened[1 : last + 1], cells.widths[:last]
        unsure = SURE * noise * math.sqrt(last)
        total = max(float(events.sum()), unsure, 1.0)
        kept = np.arange(last + 1) if wanted is None else _cut(events, total, wanted)
        kept = _joined(events, noise, kept)
        own = np.maximum(np.add.reduceat(events, kept[:-1]), 1.0)
        own *= total / own.sum()  # no events are made up: the information is that of the total
        lived = (reached[:last] - 0.5 * gone[1 : last + 1]) * widths
        pieces = cells.joined(kept)
        at_risk = np.add.reduceat(lived, kept[:-1]) / pieces.widths
        return cls(
            pieces,
            own,
            np.maximum(at_risk, _LEAST_AT_RISK * own),
            max(float(counts.sum()), _FEWEST_PATIENTS * planned),
            total > unsure,
        )


def usual_pieces(events: float) -> int:
    """How many pieces time is cut into where nobody says: by the events that are expected."""
    return int(np.clip(events / _EVENTS, _FEWEST, _MOST))


def table_cells(horizon: float, unit: float | None, pieces: int) -> Pieces:
    """The public cells of the life table, from zero to the horizon, for so many pieces."""
    cells = _CELLS * pieces
    bounds = horizon * (np.arange(cells + 1) / cells) ** _NARROWER
    return Pieces.on_units(bounds, unit)


def _followed(reached: FloatArray, noise: float) -> int:
    """How many cells are reached by patients who stand out of the noise; all if none is."""
    unsure = noise * np.sqrt(2.0 * np.arange(reached.size, 0, -1))
    lost = np.flatnonzero(reached <= np.maximum(_CLEAR_PATIENTS * unsure, 0.5))
    return int(lost[0] if lost.size and lost[0] else reached.size)


def _joined(events: FloatArray, noise: float, kept: IntArray) -> IntArray:
    """Those bounds between which so many events happened that they stand out of the noise."""
    bounds = [0]
    for bound in kept[1:].tolist():
        within = events[bounds[-1] : bound]
        if within.sum() > max(_CLEAR_EVENTS * noise * math.sqrt(within.size), 0.5):
            bounds.append(bound)
    return np.array([*(bounds[:-1] or [0]), kept[-1]])


def _cut(events: FloatArray, total: float, wanted: int) -> IntArray:
    """Between which cells pieces begin: about as many events in each, as far as noise tells."""
    happened = np.maximum.accumulate(np.append(0.0, np.cumsum(events)))
    happened *= total / max(float(happened[-1]), 1.0)
    after = np.searchsorted(happened, total * np.arange(1, wanted) / wanted)
    return np.unique(np.concatenate([[0], np.clip(after, 1, events.size), [events.size]]))
