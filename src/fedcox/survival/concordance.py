"""How often does the patient with the higher risk have the event first? Harrell's c-index.

Pairs are counted in N log N by sorting: patients stand in the order of their times, and blocks
of neighbours are merged, two by two, into the order of their risks. In a merge, a patient of
the earlier block moves forward by as many places as the later block has patients with a lower
risk, so the concordant pairs are the places that the events have moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcox.errors import CohortError
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

_RANK_BITS = 32  # 2**30 patients, which would need 8 GiB for each of the three arrays
_RANK_MASK = (1 << _RANK_BITS) - 1


@dataclass(frozen=True)
class Concordance:
    """Exact numbers of pairs: `concordant` and `tied` in risk, out of all `comparable` ones."""

    concordant: int
    tied: int
    comparable: int

    @property
    def index(self) -> float | None:
        """Harrell's c-index, a tie in risk counting half; None when no pair is comparable."""
        if self.comparable == 0:
            return None
        return (self.concordant + self.tied / 2) / self.comparable


def concordance_index(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> Concordance:
    """Compare the order of the events with the order of the risks, higher risk = earlier event.

        c-index = (concordant + tied / 2) / comparable pairs

    time    (patients,) follow-up in any unit; the true times, since those rounded up to the end
            of an interval make ties and lose pairs
    event   (patients,) whether the event happened then
    risk    (patients,) any number that is higher for worse; only its order counts

    A pair is comparable when the earlier time is an event. At the same time, a censored patient
    outlived one with the event, and two events are not compared. Returns the three numbers of
    pairs; `index` is Harrell's c-index: 0.5 is chance, 1 a perfect order, and None says that
    no two patients can be compared.

    >>> import fedcox
    >>> pairs = fedcox.concordance_index(
    ...     [5, 8, 8, 9], [True, True, False, True], [2.0, 0.5, 0.5, 1.0]
    ... )
    >>> pairs
    Concordance(concordant=3, tied=1, comparable=5)
    >>> pairs.index
    0.7

    Next: `fitted.predict_log_risk(frame)` or `trained.risk(cohort)` for risks of new patients.
    """
    times, events, risks = _checked(time, event, risk)
    keys = _by_time_then_risk(times, events, risks)
    events = (keys >> _RANK_BITS) & 1 == 0
    ranks = keys & _RANK_MASK
    # Two events at one time stand next to each other, and are in no comparable pair.
    same_time = _pairs_within_runs(keys[events] >> _RANK_BITS)
    same_time_and_risk = _pairs_within_runs(keys[events])
    after = keys.size - 1 - np.flatnonzero(events)
    return Concordance(
        concordant=_concordant_pairs(ranks, events),
        tied=_tied_pairs(ranks, events) - same_time_and_risk,
        comparable=int(after.sum()) - same_time,
    )


def _checked(
    time: ArrayLike, event: ArrayLike, risk: ArrayLike
) -> tuple[FloatArray, BoolArray, FloatArray]:
    times = np.asarray(time, dtype=np.float64)
    events = np.asarray(event, dtype=np.bool_)
    risks = np.asarray(risk, dtype=np.float64)
    faults = []
    if not times.shape == events.shape == risks.shape or times.ndim != 1:
        faults.append(
            f"Time, event and risk have the shapes {times.shape}, {events.shape} and "
            f"{risks.shape}; they need one dimension and the same length."
        )
    for name, values in (("time", times), ("risk", risks)):
        missing = int(np.isnan(values).sum())
        if missing:
            faults.append(f"{missing} patient(s) have no {name} (NaN); leave them out.")
    if faults:
        raise CohortError("These patients cannot be compared.", faults)
    return times, events, risks


def _by_time_then_risk(time: FloatArray, event: BoolArray, risk: FloatArray) -> IntArray:
    """Each patient as one number that sorts by time, events before censorings, then by risk.

    At the same time a risk never falls from one event to the next, so that the merges below
    see no concordant pair among them.
    """
    by_risk = np.argsort(risk)
    rank = np.empty(risk.size, dtype=np.int64)
    rank[by_risk] = _dense_ranks(risk[by_risk])
    by_time = np.argsort(time)
    keys = _dense_ranks(time[by_time])
    keys <<= 1
    keys |= ~event[by_time]
    keys <<= _RANK_BITS
    keys |= rank[by_time]
    keys.sort()
    return keys


def _dense_ranks(ascending: FloatArray) -> IntArray:
    """0 for the smallest value, one more for each larger one; equal values share their rank."""
    ranks = np.zeros(ascending.size, dtype=np.int64)
    np.cumsum(ascending[1:] != ascending[:-1], out=ranks[1:])
    return ranks


def _concordant_pairs(rank: IntArray, event: BoolArray) -> int:
    """Count pairs of an event and a later patient of lower rank, by merging blocks."""
    marks = (rank << 2) | (~event << 1)  # the last bit is for the block
    if rank.size < 1 << 29:
        return _places_moved(marks.astype(np.int32))
    return _places_moved(marks)


def _places_moved(marks: NDArray[np.signedinteger]) -> int:
    """Sort `marks` by merging neighbouring blocks, and add up the moves of earlier events.

    A mark is the rank, one bit that is 0 for an event, and one that is 0 in the earlier block
    of a pair: an event moves past later patients of lower rank, never past one of equal rank.
    """
    patients = marks.size
    moved = 0
    size = 1
    while size < patients:
        whole = patients - patients % (2 * size)
        blocks, rest = marks[:whole], marks[whole:]  # the rest is a pair of blocks cut short
        marks &= -2
        blocks.reshape(-1, 2, size)[:, 1] |= 1
        rest[size:] |= 1
        start = np.flatnonzero(marks & 3 == 0).sum()
        blocks.reshape(-1, 2 * size).sort(axis=1)
        rest.sort()
        moved += int(np.flatnonzero(marks & 3 == 0).sum() - start)
        size *= 2
    return moved


def _tied_pairs(rank: IntArray, event: BoolArray) -> int:
    """Count pairs of an event and a later patient of equal rank."""
    # Rank and place in one number: a sort of values is far cheaper than a stable argsort.
    keys = np.sort(rank << _RANK_BITS | np.arange(rank.size))
    order = keys & _RANK_MASK
    ascending = keys >> _RANK_BITS
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    ends = np.append(starts[1:], rank.size)
    after = ends[ascending] - 1 - np.arange(rank.size)
    return int(after[event[order]].sum())


def _pairs_within_runs(ascending: IntArray) -> int:
    """Count pairs of equal values."""
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    lengths = np.diff(starts, append=ascending.size)
    return int((lengths * (lengths - 1) // 2).sum())
