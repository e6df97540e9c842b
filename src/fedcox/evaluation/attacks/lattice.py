"""Everybody is read out of exact sums, however large the groups are.

Where covariates have few values, a sum by interval is Σ_c n_c f(c; α, β): f is known, and n_c
counts the patients of each combination of values. A fit sends several such sums, at several
points. From the last interval to the first, those who leave in it are the only ones who are not
known yet, and a lattice reduction finds their numbers (`whole_numbers.py`). Nobody has to ask
anything unusual, and a sum over centers is as good as that of one.

Of the link cloglog that tells with the event from without; of logit only who leaves, and who
has the event where all do or none. For exact time see `exposures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import Looks, Source
from fedcox.evaluation.attacks.scene import Deadline
from fedcox.evaluation.attacks.whole_numbers import whole_numbers
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import risk_of

#: Of a sum under masks, and how far rounding takes a sum, in parts of what it is made of.
RESOLUTION, ROUNDING = 2.0**-31, 1e-13


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
    source: Source, kinds: FloatArray, deadline: Deadline
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
            found = None if everybody is None else [(everybody, _known(leaving, events))]
        else:
            found = _with_and_without(equations, staying, leaving, events)
        if found is None:
            return
        for numbers, event in found:
            staying = staying + numbers
            for kind in np.repeat(np.arange(len(kinds)), numbers).tolist():
                yield Candidate(kinds[kind], interval + 1, event)


def equations_of(source: Source, kinds: FloatArray, interval: int) -> Equations:
    """All sums about one interval, at every point."""
    looks, link = source.looks, source.setting.link
    with np.errstate(over="ignore"):
        v = risk_of(looks.alpha[:, interval, None] + looks.beta @ kinds.T)
        at_risk, event = link.at_risk(v), link.event(v)
        expected = looks.expected[:, None]
        information = link.information(v)
    weights = [
        (slope, np.where(expected, information, curvature))
        for slope, curvature in (
            (at_risk.slope, at_risk.curvature),
            (event.slope, event.curvature),
        )
    ]
    without, having = (_stacked(looks, kinds, *weight) for weight in weights)
    parts = looks.slope[:, interval], looks.curvature[:, interval], looks.cross[:, interval]
    return Equations(without, having, np.concatenate([part.ravel() for part in parts]))


def _stacked(
    looks: Looks, kinds: FloatArray, slope: FloatArray, sent: FloatArray
) -> FloatArray:
    cross = sent[looks.crossed][:, None, :] * kinds.T
    return np.concatenate([slope, sent[looks.curved], cross.reshape(-1, len(kinds))])


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
    found = whole_numbers(
        np.vstack([np.hstack([equations.without, equations.having]), each]),
        np.append(equations.less(staying), [others, events]),
        np.append(equations.unsure(float(staying.sum()) + leaving), [1e-6, 1e-6]),
        np.repeat([others / kinds, events / kinds], kinds),
    )
    return None if found is None else [(found[:kinds], False), (found[kinds:], True)]
