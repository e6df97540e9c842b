"""How finely does a reply describe patients? What a hospital compares with its limits."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.survival.cohort import FloatArray, IntArray


@dataclass(frozen=True)
class Exposure:
    """How few of a center's patients the finest part of one reply describes.

    `patients` counts those the reply sums over – of a batch, those of the batch – and `events`
    the events among them. `smallest_group` is the fewest of them, not zero, by whom two
    neighbouring parts of a reply by time differ: those who leave the risk set in one interval.
    `smallest_part` is the fewest, not zero, of such a group who leave with the event, or
    without: slopes tell them apart. `pooled_group` and `pooled_part` are the same over all
    centers, as agreed for the study, which counts where only the sum over centers is seen.
    All are None for replies without a time index.
    """

    patients: int
    events: int
    smallest_group: int | None = None
    smallest_part: int | None = None
    pooled_group: int | None = None
    pooled_part: int | None = None
    parameters: int = 0  # of the model that is fitted: intervals and columns
    time_by_covariate: bool = False  # a block indexed by interval and covariate
    patient_level: bool = False  # not a sum: single patients' values
    batch: bool = False  # over some of the patients only
    counts: bool = False  # numbers of patients alone, no covariates


@dataclass(frozen=True, eq=False)
class Request:
    """One question as a hospital's gate sees it.

    `alpha` and `beta` are the parameters it is asked at, on the study's common scale, where it
    has any. `masked` says that only the sum over centers will be seen, `private` that noise
    is added for differential privacy.
    """

    query: str
    exposure: Exposure
    alpha: FloatArray | None = None
    beta: FloatArray | None = None
    masked: bool = False
    private: bool = False


@dataclass(frozen=True, eq=False)
class Known:
    """What a center finds out about a question beside the exposure of its reply.

    `edges` end the intervals of the grid it refers to. `level` is the fewest patients who share
    a level of a covariate, see `levels.py`, and `share` the largest of any patient of the
    center in the sums it asks for, see `dominance.py`. `patients` counts those of all centers,
    as agreed for the study. `spread` is the largest part of any column's claimed sum of squares
    that the center's own patients make up: more than one cannot be. None is not known, or
    there is none in this question.
    """

    edges: FloatArray | None = None
    level: int | None = None
    share: float | None = None
    patients: int | None = None
    spread: float | None = None


def smallest_of(groups: IntArray) -> int:
    """The fewest patients of any group that has some; zero where nobody is in any."""
    return int(groups[groups > 0].min()) if groups.any() else 0
