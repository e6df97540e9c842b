"""How sure is a mean of paired differences? t intervals, for replicates that share patients.

The test sets of repeated cross-validation are not independent: any two training sets have most
patients in common, so their results vary together and less than those of new studies would. A
plain t interval takes them for independent and is too short. Nadeau and Bengio (Inference for
the generalization error, Machine Learning 52, 2003) take the correlation of two test sets to
be the share of patients that is tested, which adds tested / trained to the 1 / J of the
variance of the mean; Bouckaert and Frank (2004) carry it over to repeated cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from fedcox.survival.cohort import FloatArray


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
