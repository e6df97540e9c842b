"""Everybody is read out of exact sums, however large the groups are.

Where covariates have few values, a sum by interval is Σ_c n_c f(c; α, β): f is known, and n_c
counts the patients of each combination of values. A fit sends several such sums, at several
points. From the last interval to the first, those who leave in it are the only ones who are not
known yet, and a lattice reduction finds their numbers (`whole_numbers`). Nobody has to ask
anything unusual, and a sum over centers is as good as that of one.

Of the link cloglog that tells with the event from without; of logit only who leaves, and who
has the event where all do or none. For exact time see `exposures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from fedcox.errors import needs_extra
from fedcox.evaluation.attacks.attack_setting import Candidate, Deadline
from fedcox.evaluation.attacks.observed_sums import ObservedSource, ObservedSums
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import risk_of

#: More take minutes.
MOST_UNKNOWNS = 128
#: By how many times what is unsure in it a sum may be missed.
_MISSED = 30.0
#: Coefficients are whole numbers of so many units at most.
_LARGEST = 2.0**50
#: Of a sum under masks, and how far rounding takes a sum, in parts of what it is made of.
RESOLUTION, ROUNDING = 2.0**-31, 1e-13


def whole_numbers(
    rows: FloatArray, sums: FloatArray, unsure: FloatArray, guess: FloatArray
) -> IntArray | None:
    """The whole numbers n, none negative and near `guess`, with rows · n = sums.

    `unsure` is how far off each sum may be. None where no such numbers are found.

    Sums of n_c patients of each kind c, each of whom adds a known amount, are equations with
    few digits too many: among all whole numbers near the expected ones only the true ones meet
    all of them. Lenstra, Lenstra and Lovász's reduction (1982), here of python-flint, finds
    them.
    """
    from_guess = np.rint(guess)
    weighted, target = rows / unsure[:, None], (sums - rows @ from_guess) / unsure
    kept, triangle = qr(weighted, mode="economic")
    largest = float(np.abs(triangle).max(initial=1.0))
    shrink = min(1.0, _LARGEST / largest)
    for moved in _short(np.asarray(triangle * shrink), np.asarray((kept.T @ target) * shrink)):
        numbers = from_guess + moved
        missed = np.abs(weighted @ moved - target)
        if (numbers >= 0).all() and float(missed.max(initial=0.0)) <= _MISSED:
            return numbers.astype(np.int64)
    return None


def _short(rows: FloatArray, target: FloatArray) -> list[FloatArray]:
    """Short whole vectors with rows · n near the target, the shortest first."""
    matrix = _flint()
    unknowns = rows.shape[1]
    sums = np.rint(np.column_stack([rows, -target])).T
    basis = np.hstack([np.eye(unknowns + 1), sums])
    reduced = matrix([[int(value) for value in row] for row in basis]).lll()
    vectors = []
    for row in range(unknowns + 1):
        sign = int(reduced[row, unknowns])
        if abs(sign) == 1:
            vectors.append(
                np.array([sign * int(reduced[row, k]) for k in range(unknowns)], dtype=float)
            )
    return vectors


def _flint() -> Any:
    try:
        from flint import fmpz_mat
    except ImportError:
        raise needs_extra("python-flint", "audit") from None
    return fmpz_mat


class Equations(NamedTuple):
    """What a patient of each kind adds to each sum of an interval, and the sums."""

    without: FloatArray  # (sums, kinds) of one at risk in all of the interval
    having: FloatArray  # (sums, kinds) of one with the event
    sums: FloatArray  # (sums,)

    def less(self, staying: IntArray | FloatArray) -> FloatArray:
        """The sums without those who stay longer."""
        return np.asarray(self.sums - self.without @ staying)

    def unsure(self, people: float) -> FloatArray:
        """How far off each sum may be."""
        size = np.abs(np.hstack([self.without, self.having])).max(axis=1)
        return np.asarray(RESOLUTION + ROUNDING * people * size)


def read_whole_numbers(
    source: ObservedSource, kinds: FloatArray, deadline: Deadline
) -> Iterator[Candidate]:
    """Claims from the last interval to the first, until no numbers explain the sums."""
    table, canonical = source.table, source.setting.link.canonical
    staying = np.zeros(len(kinds), dtype=np.int64)
    for interval in reversed(range(source.setting.intervals)):
        deadline.check()
        leaving, events = round(float(table.leaving[interval])), int(table.events[interval])
        equations = equations_of(source, kinds, interval)
        if canonical:
            everybody = _leaving(equations, staying, leaving, events)
            groups = None if everybody is None else [(everybody, _known(leaving, events))]
        else:
            groups = _with_and_without(equations, staying, leaving, events)
        if groups is None:
            return
        for numbers, event in groups:
            staying = staying + numbers
            for kind in np.repeat(np.arange(len(kinds)), numbers).tolist():
                yield Candidate(kinds[kind], interval + 1, event)


def equations_of(source: ObservedSource, kinds: FloatArray, interval: int) -> Equations:
    """All sums about one interval, at every point."""
    sums, link = source.sums, source.setting.link
    with np.errstate(over="ignore"):
        v = risk_of(sums.alpha[:, interval, None] + sums.beta @ kinds.T)
        at_risk, event = link.at_risk(v), link.event(v)
        expected = sums.expected[:, None]
        information = link.information(v)
    weights = [
        (slope, np.where(expected, information, curvature))
        for slope, curvature in (
            (at_risk.slope, at_risk.curvature),
            (event.slope, event.curvature),
        )
    ]
    without, having = (_stacked(sums, kinds, *weight) for weight in weights)
    parts = sums.slope[:, interval], sums.curvature[:, interval], sums.cross[:, interval]
    return Equations(without, having, np.concatenate([part.ravel() for part in parts]))


def _stacked(
    sums: ObservedSums, kinds: FloatArray, slope: FloatArray, sent: FloatArray
) -> FloatArray:
    cross = sent[sums.crossed][:, None, :] * kinds.T
    return np.concatenate([slope, sent[sums.curved], cross.reshape(-1, len(kinds))])


def _leaving(
    equations: Equations, staying: IntArray, leaving: int, events: int
) -> IntArray | None:
    """Who leaves, where an event takes the same from a slope whoever has it."""
    taken = (equations.having - equations.without)[:, :1] * events
    return whole_numbers(
        np.vstack([equations.without, np.ones(staying.size)]),
        np.append(equations.less(staying) - taken[:, 0], leaving),
        np.append(equations.unsure(float(staying.sum()) + leaving), 1e-6),
        np.full(staying.size, leaving / staying.size),
    )


def _known(leaving: int, events: int) -> bool | None:
    return events > 0 if events in (0, leaving) else None


def _with_and_without(
    equations: Equations, staying: IntArray, leaving: int, events: int
) -> list[tuple[IntArray, bool | None]] | None:
    kinds, others = staying.size, leaving - events
    each = np.kron(np.eye(2), np.ones(kinds))  # how many of each there are is counted
    numbers = whole_numbers(
        np.vstack([np.hstack([equations.without, equations.having]), each]),
        np.append(equations.less(staying), [others, events]),
        np.append(equations.unsure(float(staying.sum()) + leaving), [1e-6, 1e-6]),
        np.repeat([others / kinds, events / kinds], kinds),
    )
    return None if numbers is None else [(numbers[:kinds], False), (numbers[kinds:], True)]
