"""How many values has each column, and what is their sum? Joint means come from this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import MOST_PATIENTS, are_counts
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True, eq=False)
class ColumnSums(FieldSum):
    """Patients and, column by column, present values and their sum."""

    patients: int
    present: FloatArray  # (columns,)
    total: FloatArray  # (columns,)

    @property
    def mean(self) -> FloatArray:
        """Of each column, zero where no value is known."""
        known = self.present > 0
        return np.divide(self.total, self.present, out=np.zeros_like(self.total), where=known)

    def faults(self, columns: int | None) -> Iterator[str]:
        """No column has more values than there are patients."""
        patients = self.patients
        if not 0 <= patients <= MOST_PATIENTS or not are_counts(self.present, patients):
            yield "patients and present are no counts of the same patients"


@dataclass(frozen=True)
class CovariateSums(AbstractSumQuery[ColumnSums]):
    """Count and sum of each covariate; missing values are left out of both."""

    words: ClassVar = {"covariate sums": "how many values each column has, and their sum"}
    by_default = True

    @property
    def numbers(self) -> int:
        return 0

    #: Columns come in any unit.
    fine = None

    def shapes(self, columns: int | None) -> Shapes:
        return {"present": (columns,), "total": (columns,)}

    def answer(self, cohort: Cohort) -> ColumnSums:
        total = cohort.totals
        present = np.full(cohort.columns, float(cohort.patients))
        if not cohort.complete:
            missing = np.isnan(cohort.covariates)
            present -= missing.sum(axis=0)
            total = np.where(missing, 0.0, cohort.covariates).sum(axis=0)
        return ColumnSums(cohort.patients, present, total)
