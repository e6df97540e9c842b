"""Which patients the curves are drawn for.

Under differential privacy means and deviations are those of noisy sums, or come from the ranges
in the study. Noise may put them where nobody can be, so that they are held within the ranges,
and categories stand at their reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.reports.covariate_groups import CovariateGroup, covariate_groups
from fedcox.reports.number_text import finite, short_text
from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import FloatArray

MOST_NUMBERS = 4


@dataclass(frozen=True)
class Words:
    """How a page names the patient in the middle, and which panels it shows."""

    title: str
    label: str
    note: str
    panels: str


_AT_MEANS = Words(
    title="The average patient",
    label="every covariate at its mean",
    note="Every covariate at its mean over all centers.",
    panels="All other covariates at their means. Every category, and the numbers with the "
    "smallest p-values.",
)
_NEAR_MEANS = Words(
    title="A patient in the middle",
    label="numbers in the middle, categories at the reference",
    note="Every number near its mean, as far as noisy sums or else the range in the study tell "
    "it, and every category at its reference. The curve carries noise, too.",
    panels="All other covariates as in the curve above. Every category, and the numbers that "
    "move the curve most, in the middle and about one standard deviation to either side.",
)


def words(fitted: FittedStudy) -> Words:
    """What to say of the patient in the middle."""
    return _AT_MEANS if fitted.guarantee is None else _NEAR_MEANS


def middle_patient(fitted: FittedStudy) -> FloatArray:
    """The encoded covariates of the patient whom all curves start from, (columns,)."""
    x = fitted.typical
    if fitted.guarantee is None:
        return x
    for group in covariate_groups(fitted):
        for member in group.members:
            x[member.index] = 0.0 if group.reference else group.within(x[member.index])
    return x


def foremost(fitted: FittedStudy, numbers: Sequence[CovariateGroup]) -> list[CovariateGroup]:
    """The few numbers that get a panel of their own, the clearest or strongest first."""
    key = _p_of if fitted.inferred else _weakness
    return sorted(numbers, key=key)[:MOST_NUMBERS]


def _p_of(group: CovariateGroup) -> float:
    p = finite(group.members[0].coefficient.p)
    return 1.0 if p is None else p


def _weakness(group: CovariateGroup) -> float:
    row = group.members[0].coefficient
    return -abs(row.coef or 0.0) * row.sd


def chosen_values(fitted: FittedStudy, group: CovariateGroup) -> list[tuple[float, str]]:
    """Values of a number to draw curves at, each with its label."""
    if fitted.guarantee is None:
        return _around_mean(group, fitted.patients or 0)
    if (group.minimum, group.maximum) == (0.0, 1.0):
        return [(0.0, "0"), (1.0, "1")]
    mean, sd = group.members[0].coefficient.mean, group.members[0].coefficient.sd
    values = sorted({group.within(value) for value in (mean - sd, mean, mean + sd)})
    return [(value, short_text(value, 3)) for value in values]


def _around_mean(group: CovariateGroup, patients: int) -> list[tuple[float, str]]:
    mean, sd = group.members[0].coefficient.mean, group.members[0].coefficient.sd
    if _takes_two_values(mean, sd, patients):
        return [(0.0, "0"), (1.0, "1")]
    low, high = group.within(mean - sd), group.within(mean + sd)
    return [
        (low, f"{short_text(low, 3)} (mean − sd)"),
        (mean, f"{short_text(mean, 3)} (mean)"),
        (high, f"{short_text(high, 3)} (mean + sd)"),
    ]


def _takes_two_values(mean: float, sd: float, patients: int) -> bool:
    """Whether a number is an indicator: only zeros and ones have this spread at their mean.

    A curve at "0.6 minus one sd" of an indicator would describe nobody.
    """
    if not 0 < mean < 1:
        return False
    variance = mean * (1 - mean)
    return abs(sd**2 - variance) <= variance * (1e-9 + 1.5 / max(1, patients - 1))
