"""Where covariates lie, and how widely, with no patient weighing more than a bound.

On a public scale that gives covariates of spread about one, the vector (1, x, x²) of a patient
is about √(4P + 1) long. It is divided by that and multiplied by the bound; of patients farther
out it is shortened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedcox.survival.clipping import on_grid, shortened
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.scaling import Scaling

#: How far means, and mean squares, usually are from the public scale's, which are 0 and 1.
_USUAL_MEAN, _USUAL_SQUARE = 1.0, 0.8
#: A public scale is not off by more than this, in its own units; what says so is noise.
_FARTHEST, _NARROWEST, _WIDEST = 2.0, 0.2, 2.0


@dataclass(frozen=True, eq=False)
class ClippedMoments:
    """Patients, their covariates and the squares, as sums; with noise they may be negative."""

    patients: float
    totals: FloatArray  # (columns,)
    squares: FloatArray  # (columns,)

    def __add__(self, other: ClippedMoments) -> ClippedMoments:
        return ClippedMoments(
            self.patients + other.patients,
            self.totals + other.totals,
            self.squares + other.squares,
        )

    def scaling(self, public: Scaling, noise: float) -> Scaling:
        """The covariates' own mean and spread, as far as they can be seen through the noise.

        `noise` is its standard deviation in these sums. What it drowns stays as on the public
        scale.
        """
        if self.patients <= 0:
            return public
        noise /= self.patients
        trust = 1.0 / (1.0 + (noise / _USUAL_MEAN) ** 2)
        mean = trust * np.clip(self.totals / self.patients, -_FARTHEST, _FARTHEST)
        trust = 1.0 / (1.0 + (noise / _USUAL_SQUARE) ** 2)
        square = trust * self.squares / self.patients + (1.0 - trust) * (1.0 + mean**2)
        spread = np.sqrt(np.clip(square - mean**2, _NARROWEST**2, _WIDEST**2))
        return Scaling(public.keep, public.mean + mean * public.spread, public.spread * spread)


def moment_scale(columns: int, bound: float) -> float:
    """What (1, x, x²) is multiplied by, so that the bound holds for most as they are."""
    return bound / math.sqrt(4 * columns + 1)


def clipped_moments(
    covariates: FloatArray, bound: float, *, resolution: float, patients: IntArray
) -> ClippedMoments:
    """Sums over the rows `patients` of covariates on the public scale; see `moment_scale`."""
    chosen, columns = covariates[patients], covariates.shape[1]
    with np.errstate(over="ignore"):
        rows = np.hstack([np.ones((chosen.shape[0], 1)), chosen, chosen**2])
        rows *= moment_scale(columns, bound)
    total = on_grid(shortened(rows, bound), resolution).sum(axis=0)
    return ClippedMoments(float(total[0]), total[1 : 1 + columns], total[1 + columns :])
