"""Who leaves when, out of exact sums of exact time at risk.

With a hazard that is constant within a piece, a sum by piece is Σ_c E_c exp(α + β·x_c), where
E_c is the time that all patients of combination c live through in the piece. A few points give
every E_c exactly: in half units of the record, where it has a unit. The life table on fine
cells, with which every fit begins, tells when patients leave. The times of those of one
combination, and a whole piece for each who stays, add up to E_c: where that has one solution,
everybody who leaves in the piece is known, event or not. So it reads single centers, short
pieces and small studies; in long pieces of large studies many solutions are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, pairwise, product
from typing import NamedTuple

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate, Deadline, TimeLimitError
from fedcox.evaluation.attacks.lattice import equations_of, whole_numbers
from fedcox.evaluation.attacks.observed_sums import ObservedSource
from fedcox.federation.queries.interval_counts import Counts
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.time_grid import Pieces

#: Patients who leave in one piece and are still told apart, and ways to read their times.
_MOST_LEAVERS, _MOST_READINGS, _MOST_STATES = 18, 1000, 20_000
#: And in one cell, whose times are not seen one by one.
_MOST_ALIKE = 5
#: A sum of times may be missed by this part of the smallest step, or of a piece without one.
_MISSED, _NEAR = 0.25, 1e-6


class FineTable(NamedTuple):
    """A life table on fine cells, as it was sent."""

    cells: Pieces
    counts: Counts


class _Leavers(NamedTuple):
    """When the patients who leave in a piece do so, from its beginning."""

    time: FloatArray
    event: BoolArray


#: Of every kind: how many leave without the event, with it, and stay.
_Way = tuple[tuple[int, int, int], ...]
#: How many of each kind.
_Numbers = tuple[int, ...]


def read_exposures(
    source: ObservedSource, kinds: FloatArray, life: FineTable, deadline: Deadline
) -> Iterator[Candidate]:
    """Claims for every piece in which one way of leaving explains the sums.

    Who reaches a piece stays in the one before, which leaves fewer ways to its neighbours.
    """
    pieces: list[_Piece] = []
    stopped = None
    try:
        for piece in _pieces(source, kinds, life, deadline):
            pieces.append(piece)
        _solve(pieces, deadline)
    except TimeLimitError as error:
        stopped = error
    for piece in pieces:
        last = piece.number == source.setting.intervals - 1
        yield from piece.claims(kinds, last=last)
    if stopped is not None:
        raise stopped


def _solve(pieces: Sequence[_Piece], deadline: Deadline) -> None:
    """Deal out who leaves, until neighbours have nothing more to tell each other."""
    left = -1
    while left != (left := sum(piece.open for piece in pieces)):
        for piece in pieces:
            if piece.ways is None:
                piece.solve(deadline)
        for one, following in pairwise(pieces):
            if one.end == following.start:
                _agree(one, following)


def _pieces(
    source: ObservedSource, kinds: FloatArray, life: FineTable, deadline: Deadline
) -> Iterator[_Piece]:
    grid = source.setting.grid
    if not isinstance(grid, Pieces) or source.setting.basis is not None:
        return
    for number, place in enumerate(np.flatnonzero(source.setting.active).tolist()):
        deadline.check()
        start, end = float(grid.bounds[place]), float(grid.bounds[place + 1])
        exposures = _exposures(source, kinds, number, end - start, grid.unit)
        if exposures is not None:
            missed = _NEAR * (end - start) if grid.unit is None else _MISSED * grid.unit
            readings = list(_readings(life, start, end))
            yield _Piece(number, (start, end), exposures, readings, missed)


def _exposures(
    source: ObservedSource, kinds: FloatArray, number: int, width: float, unit: float | None
) -> FloatArray | None:
    """The time that each kind lives through in a piece; None where the sums do not tell."""
    table, equations = source.table, equations_of(source, kinds, number)
    rows, sums = equations.without, equations.sums + _events(source, number)
    people = float(table.at_risk[number])
    unsure = equations.unsure(people)
    if unit is not None:
        step = 0.5 * unit / width
        numbers = whole_numbers(
            np.vstack([rows, np.ones(len(kinds))]) * step,
            np.append(sums, people),
            np.append(unsure, 1e-6 * step),
            np.full(len(kinds), people / step / len(kinds)),
        )
        return None if numbers is None else np.asarray(numbers * step * width)
    if np.linalg.matrix_rank(rows) < len(kinds):
        return None
    weighted = rows / unsure[:, None]
    solved = np.linalg.lstsq(weighted, sums / unsure, rcond=None)[0]
    errors = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)))
    return None if float(errors.max()) > 0.1 * _NEAR else np.asarray(solved * width)


def _events(source: ObservedSource, number: int) -> FloatArray:
    """What events take from the slopes in α: one each, whoever has it."""
    sums = source.sums
    others = sums.curved.size + sums.cross[:, number].size
    taken = float(source.table.events[number])
    return np.append(np.full(sums.points, taken), np.zeros(others))


# When patients leave, by the life table.


def _readings(life: FineTable, start: float, end: float) -> Iterator[tuple[_Leavers, int]]:
    """All times at which patients may leave in a piece, and how many stay."""
    counts, bounds, unit = life.counts, life.cells.bounds, life.cells.unit
    inside = np.flatnonzero((bounds[:-1] >= start - 1e-9) & (bounds[1:] <= end + 1e-9))
    after = np.append(counts.reached[1:], float(counts.passed))
    choices = []
    for cell in inside.tolist():
        people, events = round(counts.reached[cell] - after[cell]), round(counts.events[cell])
        width = bounds[cell + 1] - bounds[cell]
        lived = (counts.at_risk[cell] - after[cell]) * width
        read = _times(people, events, float(lived), float(width), unit)
        if read is None:
            return
        from_start = float(bounds[cell]) - start
        choices.append([[(from_start + t, event) for t, event in one] for one in read])
    if not choices:
        return
    most = np.prod([float(len(choice)) for choice in choices])
    people = sum(len(choice[0]) for choice in choices if choice)
    if not 0 < most <= _MOST_READINGS or people > _MOST_LEAVERS:
        return
    staying = round(float(after[inside[-1]]))
    for chosen in product(*choices):
        leavers = [one for cell_leavers in chosen for one in cell_leavers]
        time = np.array([t for t, _ in leavers], dtype=np.float64)
        yield _Leavers(time, np.array([e for _, e in leavers], dtype=np.bool_)), staying


def _times(
    people: int, events: int, lived: float, width: float, unit: float | None
) -> list[list[tuple[float, bool]]] | None:
    """Ways in which so many leave a cell and live through so much of it together."""
    if people == 0:
        return [[]]
    if people == 1:
        return [[(lived, events == 1)]]
    if unit is None or people > _MOST_LEAVERS:
        return None
    ends = np.asarray(unit * np.arange(1, round(width / unit) + 1), dtype=np.float64)
    ways = [
        [(float(t), event) for t, event in (*having, *without)]
        for having in _multisets(ends - 0.5 * unit, events, event=True)
        for without in _multisets(ends, people - events, event=False)
        if abs(sum(t for t, _ in (*having, *without)) - lived) < 0.25 * unit
    ]
    return ways if len(ways) <= _MOST_READINGS else None


def _multisets(
    times: FloatArray, number: int, *, event: bool
) -> list[tuple[tuple[float, bool], ...]]:
    """All ways to choose so many of these times; none of them for too many."""
    if number > _MOST_ALIKE:
        return []
    return list(combinations_with_replacement([(float(t), event) for t in times], number))


# Which of them is of which kind.


class _Piece:
    """One piece: the time that each kind lives through in it, and what is known so far.

    `before` and `after` are who reaches it and who the next piece, by kind, where known;
    `ways` are all ways to leave that explain the sums, None where there are too many.
    """

    def __init__(
        self,
        number: int,
        span: tuple[float, float],
        exposures: FloatArray,
        readings: Sequence[tuple[_Leavers, int]],
        missed: float,
    ) -> None:
        self.number, (self.start, self.end) = number, span
        self._exposures, self._readings, self._missed = exposures, readings, missed
        self.before: _Numbers | None = None
        self.after: _Numbers | None = None
        self.ways: set[_Way] | None = None

    @property
    def open(self) -> int:
        """How much there is to find out still."""
        unknown = (self.before is None) + (self.after is None)
        return unknown + (_MOST_STATES if self.ways is None else len(self.ways))

    def claims(self, kinds: FloatArray, *, last: bool) -> Iterator[Candidate]:
        """Who leaves in it; of the last one, who stays to the horizon, too."""
        if self.ways:
            ways = np.array(list(self.ways), dtype=np.int64)  # (ways, kinds, 3)
            ways[:, :, 0] += last * ways[:, :, 2]
            without, having, both = ways[0, :, 0], ways[0, :, 1], ways[:, :, :2].sum(axis=2)
            sure = (ways[:, :, :2] == ways[0, :, :2]).all(axis=(0, 2))
            gone = (both == both[0]).all(axis=0) & ~sure
            numbers = [(False, without * sure), (True, having * sure), (None, both[0] * gone)]
        elif self.before is not None and self.after is not None:
            numbers = [(None, np.subtract(self.before, self.after))]
        else:
            return
        for event, number in numbers:
            for kind in np.repeat(np.arange(len(kinds)), number).tolist():
                yield Candidate(kinds[kind], self.number + 1, event)

    def keep(self, ways: set[_Way]) -> None:
        """Only these ways are left."""
        self.ways = ways
        befores, afters = {_before(way) for way in ways}, {_after(way) for way in ways}
        if len(befores) == 1:
            (self.before,) = befores
        if len(afters) == 1:
            (self.after,) = afters

    def solve(self, deadline: Deadline) -> None:
        """All ways in which the exposures come out, if they are not too many."""
        ways_of_all: set[_Way] = set()
        for leavers, staying in self._readings:
            deadline.check()
            ways = self._dealt(leavers, staying)
            if ways is None or len(ways_of_all) + len(ways) > _MOST_STATES:
                return
            ways_of_all |= ways
        if ways_of_all:
            self.keep(ways_of_all)

    def _dealt(self, leavers: _Leavers, staying: int) -> set[_Way] | None:
        """All ways to deal leavers out so that the exposures come out; None: too many."""
        people, width = leavers.time.size, self.end - self.start
        chosen = (np.arange(2**people)[:, None] >> np.arange(people)) & 1
        lived, having = chosen @ leavers.time, chosen @ leavers.event
        count = chosen.sum(axis=1)
        states: dict[tuple[int, int], set[_Way]] = {(0, 0): {()}}
        for kind, exposure in enumerate(self._exposures.tolist()):
            stays = np.rint((exposure - lived) / width)
            fits = np.abs(exposure - lived - stays * width) < self._missed
            fits &= (stays >= 0) & (stays <= staying)
            if self.after is not None:
                fits &= stays == self.after[kind]
            if self.before is not None:
                fits &= stays + count == self.before[kind]
            subsets = np.flatnonzero(fits)
            following: dict[tuple[int, int], set[_Way]] = {}
            for (dealt, stayed), ways in states.items():
                free = subsets[((subsets & dealt) == 0) & (stays[subsets] <= staying - stayed)]
                for subset in free.tolist():
                    row = int(count[subset] - having[subset]), int(having[subset])
                    part = (*row, int(stays[subset]))
                    key = dealt | subset, stayed + part[2]
                    following.setdefault(key, set()).update((*way, part) for way in ways)
            states = following
            if sum(map(len, states.values())) > _MOST_STATES:
                return None
        return states.get((2**people - 1, staying), set())


def _before(way: _Way) -> _Numbers:
    return tuple(without + having + staying for without, having, staying in way)


def _after(way: _Way) -> _Numbers:
    return tuple(staying for *_, staying in way)


def _agree(one: _Piece, following: _Piece) -> None:
    """Who stays in a piece are those who reach the next."""
    afters = _known(one.after, one.ways, _after)
    befores = _known(following.before, following.ways, _before)
    if afters is None or befores is None:
        common = afters or befores or set()
    else:
        common = afters & befores
    if not common:
        return
    if len(common) == 1:
        (one.after,) = (following.before,) = common
    if one.ways is not None:
        one.keep({way for way in one.ways if _after(way) in common})
    if following.ways is not None:
        following.keep({way for way in following.ways if _before(way) in common})


def _known(
    certain: _Numbers | None, ways: set[_Way] | None, end: Callable[[_Way], _Numbers]
) -> set[_Numbers] | None:
    if certain is not None:
        return {certain}
    return None if ways is None else {end(way) for way in ways}
