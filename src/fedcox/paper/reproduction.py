"""What a reproduction of the paper consists of: panels of a figure, and what it claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedcox.evaluation.comparison import Claim, Comparison, SchemeSummary
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.result import Evaluation


@dataclass(frozen=True, eq=False)
class Panel:
    """One data set, or one split of it, with the experiment on it; `name` names its file."""

    name: str
    title: str
    experiment: Experiment
    unit: str
    notes: tuple[str, ...] = ()


#: Comparisons by panel and evaluation.
Compared = Mapping[tuple[str, Evaluation], Comparison]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One section of the paper: what to run, and what its results should show."""

    name: str
    title: str
    lead: str
    panels: tuple[Panel, ...]
    claims: Callable[[Compared], tuple[Claim, ...]]
    claims_note: str
    reference: str | None = None


def summary_of(comparison: Comparison, scheme: str) -> SchemeSummary:
    """One scheme of a comparison."""
    for summary in comparison.schemes:
        if summary.scheme == scheme:
            return summary
    raise KeyError(scheme)


def mean_of(comparison: Comparison, scheme: str) -> float:
    """The scheme's mean c-index; NaN where no test set gave one, which no claim survives."""
    mean = summary_of(comparison, scheme).mean
    return float("nan") if mean is None else mean
