"""How many values has each column, and what is their sum? Joint means come from this."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Patients and, column by column, present values and their sum."""

    patients: int
    present: FloatArray  # (columns,)
    total: FloatArray  # (columns,)

    @property
    def mean(self) -> FloatArray:
        """Of each column, zero where no value is known."""
        known = self.present > 0
        return np.divide(self.total, self.present, out=np.zeros_like(self.total), where=known)

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(
            self.patients + other.patients,
            self.present + other.present,
            self.total + other.total,
        )


@dataclass(frozen=True)
class CovariateSums(AbstractSumQuery[ColumnSums]):
    """Count and sum of each covariate; missing values are left out of both."""

    @property
    def name(self) -> str:
        return "covariate sums"

    @property
    def numbers(self) -> int:
        return 0

    #: Columns come in any unit.
    fine = None

    def answer(self, cohort: Cohort) -> ColumnSums:
        total = cohort.totals
        present = np.full(cohort.columns, float(cohort.patients))
        if not cohort.complete:
            missing = np.isnan(cohort.covariates)
            present -= missing.sum(axis=0)
            total = np.where(missing, 0.0, cohort.covariates).sum(axis=0)
        return ColumnSums(cohort.patients, present, total)

    def pack(self, answer: ColumnSums) -> FloatArray:
        return np.concatenate([[answer.patients], answer.present, answer.total])

    def unpack(self, vector: FloatArray) -> ColumnSums:
        present, total = np.split(vector[1:], 2)
        return ColumnSums(round(vector[0]), present, total)
