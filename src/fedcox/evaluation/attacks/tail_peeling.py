"""Patients are peeled off the end of time, one interval after the other.

In the last interval few patients are at risk. Their sums at many points give their covariates;
what they add to the interval before is then known, and the patients who leave there stand
alone. Nobody has to ask anything unusual, and a sum over centers does not help: it is the sum
of one large center.
"""

from __future__ import annotations

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.group_fit import Outcomes, fit_group, sums_of
from fedcox.evaluation.attacks.looks import LifeTable, Source
from fedcox.survival.cohort import IntArray

#: Patients who leave in one interval and are still told apart.
MOST_AT_ONCE = 12


def peel_tail(
    source: Source, rng: np.random.Generator, most_at_once: int = MOST_AT_ONCE
) -> list[Candidate]:
    """Patients found from the last interval backwards, until too many leave at once.

    Halves of patients are not told from whole ones, so the reading "half" ends it at once.
    """
    setting, looks = source.setting, source.looks
    found: list[Candidate] = []
    if setting.reading == "half":
        return found
    for interval in reversed(range(setting.intervals)):
        leaving = leaving_in(source.table, interval)
        if not leaving.intervals.size:
            continue
        if leaving.intervals.size > most_at_once:
            break
        covariates = fit_group(
            setting.link, looks, leaving, np.array([interval]), whole=False, rng=rng
        )
        if covariates is None:
            break
        # The logit link's slopes of those with and without the event differ by a constant.
        unsure = setting.link.canonical and np.unique(leaving.event).size > 1
        found += [
            Candidate(x, int(intervals), None if unsure else bool(event))
            for x, intervals, event in zip(
                covariates, leaving.intervals, leaving.event, strict=True
            )
        ]
        looks = looks.less(sums_of(setting.link, looks, leaving, covariates))
    return found


def leaving_in(table: LifeTable, interval: int) -> Outcomes:
    """The patients who are at risk in an interval and not in the next, by a life table."""
    people = round(float(table.leaving[interval]))
    events = min(int(table.events[interval]), people)
    return Outcomes(np.full(people, interval + 1, dtype=np.int64), np.arange(people) < events)


def everyone(table: LifeTable) -> Outcomes:
    """The outcomes of all patients, as a life table has them."""
    parts = [leaving_in(table, interval) for interval in range(table.events.size)]
    return Outcomes(
        _joined([part.intervals for part in parts]),
        _joined([part.event.astype(np.int64) for part in parts]).astype(np.bool_),
    )


def _joined(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
