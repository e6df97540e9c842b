"""What is the gradient at these parameters? A reply in which no patient can be seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractPrivateQuery
from fedcox.federation.setting import Setting
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.clipped_gradient import ClippedSum, Clipping, clipped_gradient
from fedcox.survival.cohort import Cohort, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ClippedGradientAt(AbstractPrivateQuery[ClippedSum]):
    """Sums of patients' shares, each clipped to the release's sensitivity.

    The center draws the patients in secret, by the release's sampling rate, and adds the noise
    itself.
    """

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    alpha_scale: float
    beta_scale: float
    release: GaussianRelease

    @property
    def name(self) -> str:
        sampled = " of a sample" if self.release.sampling_rate < 1 else ""
        return f"clipped gradient{sampled}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 7  # scales, and the release's five

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    def summed(self, cohort: Cohort, patients: IntArray) -> ClippedSum:
        return clipped_gradient(
            self.agreed.cells(cohort),
            self.agreed.link,
            (self.alpha, self.beta),
            Clipping(self.release.sensitivity, self.alpha_scale, self.beta_scale),
            patients=patients,
            resolution=self.release.resolution,
        )

    def pack(self, answer: ClippedSum) -> FloatArray:
        return np.concatenate([answer.alpha, answer.beta])

    def unpack(self, vector: FloatArray) -> ClippedSum:
        return ClippedSum(vector[: self.alpha.size], vector[self.alpha.size :])
