"""Where do the covariates lie? A reply in which no patient can be seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractPrivateQuery
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.clipped_moments import ClippedMoments, clipped_moments
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.scaling import Scaling


@dataclass(frozen=True, eq=False)
class ClippedMomentsOf(AbstractPrivateQuery[ClippedMoments]):
    """Patients, and sums of covariates and of their squares on a public scale.

    All are multiplied by `moment_scale`.
    """

    scaling: Scaling
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "clipped covariate moments"

    @property
    def numbers(self) -> int:
        return self.scaling.numbers + 5

    def summed(self, cohort: Cohort, patients: IntArray) -> ClippedMoments:
        scaled = np.empty((cohort.patients, self.scaling.keep.size))
        self.scaling.apply(cohort.covariates, out=scaled, complete=cohort.complete)
        return clipped_moments(
            scaled,
            self.release.sensitivity,
            resolution=self.release.resolution,
            patients=patients,
        )

    def pack(self, answer: ClippedMoments) -> FloatArray:
        return np.concatenate([[answer.patients], answer.totals, answer.squares])

    def unpack(self, vector: FloatArray) -> ClippedMoments:
        columns = self.scaling.keep.size
        return ClippedMoments(float(vector[0]), vector[1 : 1 + columns], vector[1 + columns :])
