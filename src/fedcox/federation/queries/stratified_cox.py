"""What are loss, gradient and curvature of Cox's model? Every center is its own stratum."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.batch import PatientBatch
from fedcox.federation.packing import pack_derivatives, unpack_derivatives
from fedcox.federation.query import AbstractAdditiveQuery
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.partial_likelihood import PartialLikelihood, Ties
from fedcox.survival.scaling import Scaling


@dataclass(frozen=True, eq=False)
class CoxSetting:
    """The common scale and the treatment of tied event times.

    A center gets it once and orders its patients by it; later questions only refer to it. What
    was prepared stays in the center and is forgotten with the setting.
    """

    scaling: Scaling
    ties: Ties
    _prepared: WeakKeyDictionary[Cohort, PartialLikelihood] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def columns(self) -> int:
        return int(self.scaling.keep.size)

    @property
    def numbers(self) -> int:
        """How many numbers describe this setting: the scale and one name."""
        return self.scaling.numbers + 1

    def prepared(self, cohort: Cohort) -> PartialLikelihood:
        """The cohort as a stratum, made at the first question and kept."""
        prepared = self._prepared.get(cohort)
        if prepared is None:
            prepared = PartialLikelihood.of(cohort, self.scaling, self.ties)
            self._prepared[cohort] = prepared
        return prepared


@dataclass(frozen=True, eq=False)
class StratifiedCoxAt(AbstractAdditiveQuery[Derivatives]):
    """A center's partial likelihood among its own patients, or its share of a batch.

    Not a sum over patients: the risk sets of two centers are not those of their union, so no
    engine may join centers to answer this.
    """

    agreed: CoxSetting
    beta: FloatArray
    detail: Detail
    batch: PatientBatch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else " of a batch"
        return f"partial likelihood: {self.detail.value}{batch}"

    @property
    def numbers(self) -> int:
        return self.beta.size + (0 if self.batch is None else 4)

    @property
    def setting(self) -> CoxSetting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return np.empty(0), self.beta

    @property
    def batched(self) -> bool:
        return self.batch is not None

    #: Losses are compared with each other, to their last digits.
    fine = 1

    def answer(self, cohort: Cohort) -> Derivatives:
        stratum = self.agreed.prepared(cohort)
        if self.batch is not None:
            stratum = stratum.draw(self.batch.numbers())
        return stratum.derivatives(self.beta, self.detail)

    def numbers_in(self, answer: Derivatives) -> int:
        return answer.numbers

    def pack(self, answer: Derivatives) -> FloatArray:
        return pack_derivatives(answer)

    def unpack(self, vector: FloatArray) -> Derivatives:
        return unpack_derivatives(vector, 0, self.beta.size, self.detail)
