"""Which patients a round uses, when it does not use all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import IntArray


@dataclass(frozen=True)
class PatientBatch:
    """Patients drawn over all of them in the study, with replacement (the paper, section 2.2).

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
