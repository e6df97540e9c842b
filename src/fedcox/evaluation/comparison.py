"""Which scheme is better, by how much, and how sure is that? Rows of an experiment summed up.

A difference is taken between two schemes on the same test set of the same seed, never between
two means. Its interval depends on what is repeated; `REPLICATES` says what each kind assumes.
A test set without a c-index counts in no mean, and how many there were is said.

The test sets of repeated cross-validation are not independent: any two training sets have most
patients in common, so their results vary together and less than those of new studies would. A
plain t interval takes them for independent and is too short. Nadeau and Bengio (Inference for
the generalization error, Machine Learning 52, 2003) take the correlation of two test sets to
be the share of patients that is tested, which adds tested / trained to the 1 / J of the
variance of the mean; Bouckaert and Frank (2004) carry it over to repeated cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from fedcox.evaluation.result import Evaluation, Row
from fedcox.survival.cohort import FloatArray

#: What the interval of a difference takes for its independent pieces.
Replicates = Literal["folds", "centers", "runs"]
#: Seed and test set.
_Where = tuple[int, int | str]
#: A test set with fewer events than this judges on few pairs of patients.
FEW_EVENTS = 5
REPLICATES: dict[Replicates, str] = {
    "folds": (
        "95 % intervals of differences: corrected resampled t (Nadeau and Bengio), which "
        "allows for training sets that share patients. It concerns other patients of these "
        "centers, and is an approximation."
    ),
    "centers": (
        "95 % intervals of differences: paired t over the centers left out, each the mean of "
        "its runs. It takes the centers for a sample of centers, independent of each other; "
        "they are few, and their training sets share patients, so read it as a rough guide."
    ),
    "runs": (
        "95 % intervals of differences: paired t over runs, each the mean of its test sets. "
        "Every run has patients of its own, so runs are independent."
    ),
}


@dataclass(frozen=True)
class Interval:
    """A mean between its bounds; these are None where one value says nothing of spread."""

    mean: float
    low: float | None
    high: float | None


def t_interval(
    values: FloatArray, *, tested_to_trained: float = 0.0, level: float = 0.95
) -> Interval:
    """The mean of `values` with a t interval on one degree of freedom less than there are.

    `tested_to_trained` is the ratio of test to training patients, for values that come from
    resampling the same patients; zero takes the values for independent.

    >>> interval = t_interval(np.array([0.0, 0.02, 0.04]))
    >>> f"{interval.mean:.3f} ({interval.low:.3f} to {interval.high:.3f})"
    '0.020 (-0.030 to 0.070)'
    """
    mean = float(values.mean())
    if values.size < 2:
        return Interval(mean, None, None)
    variance = float(values.var(ddof=1)) * (1.0 / values.size + tested_to_trained)
    quantile = float(stdtrit(values.size - 1, 0.5 + level / 2.0))
    half = quantile * float(np.sqrt(variance))
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Claim:
    """A conclusion as it is checked, what was measured, whether it held."""

    statement: str
    measured: str
    held: bool


@dataclass(frozen=True)
class SchemeSummary:
    """One scheme over all test sets that gave it a c-index.

    `sd` is over test sets, `sd_of_runs` over the means of the seeds; None where there is only
    one. `seconds`, `rounds` and bytes are means over all test sets.
    """

    scheme: str
    mean: float | None
    sd: float | None
    sd_of_runs: float | None
    test_sets: int
    without_index: int
    seconds: float
    rounds: float
    bytes_up: float
    bytes_down: float


@dataclass(frozen=True)
class Difference:
    """The c-index of `scheme` minus that of `reference`, on the same test sets.

    `replicates` counts the pieces the interval is over; with one, there is no interval.
    """

    scheme: str
    reference: str
    mean: float | None
    low: float | None
    high: float | None
    pairs: int
    replicates: int


@dataclass(frozen=True)
class Note:
    """What the reader must know of a scheme, and on how many of its test sets."""

    scheme: str
    text: str
    test_sets: int


@dataclass(frozen=True)
class Comparison:
    """All schemes under one evaluation; `differences` has every pair, later minus earlier.

    `few_events` counts test sets that gave a c-index, but have fewer than `FEW_EVENTS` events.
    """

    evaluation: Evaluation
    seeds: int
    test_sets: int
    schemes: tuple[SchemeSummary, ...]
    differences: tuple[Difference, ...]
    replicates: Replicates
    notes: tuple[Note, ...]
    few_events: int

    def difference(self, scheme: str, reference: str) -> Difference | None:
        """That pair, or None where it was not compared in this order."""
        pairs = {(pair.scheme, pair.reference): pair for pair in self.differences}
        return pairs.get((scheme, reference))


def compare(rows: Sequence[Row], *, drawn_anew: bool = False) -> tuple[Comparison, ...]:
    """Sum up the rows of an experiment, one comparison for each evaluation.

    Schemes and evaluations stand in the order in which they first appear. `drawn_anew` says
    that every seed has patients of its own, as simulations may.
    """
    evaluations = dict.fromkeys(row.evaluation for row in rows)
    return tuple(
        _comparison([row for row in rows if row.evaluation == name], name, drawn_anew)
        for name in evaluations
    )


def _comparison(rows: list[Row], evaluation: Evaluation, drawn_anew: bool) -> Comparison:
    by_scheme = {
        scheme: [row for row in rows if row.scheme == scheme]
        for scheme in dict.fromkeys(row.scheme for row in rows)
    }
    replicates = _replicates(rows, evaluation, drawn_anew)
    return Comparison(
        evaluation,
        seeds=len({row.seed for row in rows}),
        test_sets=len({(row.seed, row.test_set) for row in rows}),
        schemes=tuple(
            _summary(scheme, scheme_rows) for scheme, scheme_rows in by_scheme.items()
        ),
        differences=tuple(
            _difference(by_scheme[reference], by_scheme[scheme], replicates)
            for reference, scheme in combinations(by_scheme, 2)
        ),
        replicates=replicates,
        notes=tuple(_notes(by_scheme)),
        few_events=len(
            {
                (row.seed, row.test_set)
                for row in rows
                if row.c_index is not None and row.events < FEW_EVENTS
            }
        ),
    )


def _replicates(rows: Iterable[Row], evaluation: Evaluation, drawn_anew: bool) -> Replicates:
    if drawn_anew and len({row.seed for row in rows}) > 1:
        return "runs"
    return "folds" if evaluation == "folds" else "centers"


def _summary(scheme: str, rows: list[Row]) -> SchemeSummary:
    known = _indices(rows)
    return SchemeSummary(
        scheme,
        mean=fmean(known.values()) if known else None,
        sd=_spread([*known.values()]),
        sd_of_runs=_spread(_replicate_means(known, "runs")),
        test_sets=len(known),
        without_index=len(rows) - len(known),
        seconds=fmean(row.seconds for row in rows),
        rounds=fmean(row.rounds for row in rows),
        bytes_up=fmean(row.bytes_up for row in rows),
        bytes_down=fmean(row.bytes_down for row in rows),
    )


def _difference(reference: list[Row], scheme: list[Row], replicates: Replicates) -> Difference:
    """Later minus earlier, over the test sets on which both have an index."""
    before, after = _indices(reference), _indices(scheme)
    gains = {where: after[where] - before[where] for where in after if where in before}
    pair = scheme[0].scheme, reference[0].scheme
    if not gains:
        return Difference(*pair, None, None, None, pairs=0, replicates=0)
    values = _replicate_means(gains, replicates)
    shared = 0.0
    if replicates == "folds":
        shared = fmean(
            row.patients / row.trained_on for row in scheme if (row.seed, row.test_set) in gains
        )
    interval = t_interval(np.array(values), tested_to_trained=shared)
    return Difference(
        *pair,
        interval.mean,
        interval.low,
        interval.high,
        pairs=len(gains),
        replicates=len(values),
    )


def _indices(rows: Iterable[Row]) -> dict[_Where, float]:
    """The c-index on every test set that gave one."""
    return {(row.seed, row.test_set): row.c_index for row in rows if row.c_index is not None}


def _replicate_means(values: dict[_Where, float], replicates: Replicates) -> list[float]:
    """The mean of each replicate: a seed, a center, or each test set by itself."""
    groups: dict[_Where | int | str, list[float]] = {}
    for where, value in values.items():
        seed, test_set = where
        name = {"runs": seed, "centers": test_set, "folds": where}[replicates]
        groups.setdefault(name, []).append(value)
    return [fmean(group) for group in groups.values()]


def _spread(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _notes(by_scheme: dict[str, list[Row]]) -> Iterable[Note]:
    for scheme, rows in by_scheme.items():
        texts = [text for row in rows for text in dict.fromkeys(row.notes)]
        for text in dict.fromkeys(texts):
            yield Note(scheme, text, texts.count(text))
