"""What are loss, gradient and curvature at these parameters? The question of every solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail


@dataclass(frozen=True)
class Batch:
    """A batch drawn over all patients of the study, with replacement (the paper, section 2.2).

    Every center draws the same numbers from the same seed and takes those that are its own, so
    the batch is that of the pooled patients whoever holds them.
    """

    seed: int
    step: int
    size: int
    population: int

    def numbers(self) -> IntArray:
        """Study numbers of the patients in this batch."""
        rng = np.random.default_rng((self.seed, self.step))
        return rng.integers(self.population, size=self.size)


@dataclass(frozen=True, eq=False)
class DerivativesAt(AbstractSumQuery[Derivatives]):
    """Sums over a center's patients, or over its share of a batch."""

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    detail: Detail
    batch: Batch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else " of a batch"
        return f"{self.detail.value}{batch}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + (0 if self.batch is None else 4)

    @property
    def setting(self) -> Setting:
        return self.agreed

    def answer(self, cohort: Cohort) -> Derivatives:
        patients = self.agreed.prepared(cohort)
        if self.batch is not None:
            patients = patients.draw(self.batch.numbers())
        return patients.derivatives(self.agreed.link, self.alpha, self.beta, self.detail)

    def combine(self, left: Derivatives, right: Derivatives) -> Derivatives:
        return left + right

    def numbers_in(self, answer: Derivatives) -> int:
        return answer.numbers
