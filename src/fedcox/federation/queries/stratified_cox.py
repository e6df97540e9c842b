"""What are loss, gradient and curvature of Cox's model? Every center is its own stratum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt, derivative_shapes
from fedcox.federation.query import AbstractAdditiveQuery, Agreed
from fedcox.federation.sums import Shapes
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.partial_likelihood import PartialLikelihood, Ties
from fedcox.survival.scaling import Scaling


@dataclass(frozen=True, eq=False)
class CoxSetting(Agreed):
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

    words: ClassVar = {
        f"partial likelihood: {detail}": f"{words}, in Cox's model of the center alone"
        for detail, words in DerivativesAt.words.items()
        if detail not in DerivativesAt.only_if_named
    }
    parts = (PatientBatch.name,)

    agreed: CoxSetting
    beta: FloatArray
    detail: Detail
    batch: PatientBatch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else f" of {self.batch.name}"
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

    def faults(self, columns: int | None) -> Iterator[str]:
        size = (self.agreed.columns,)
        yield from shaped("beta", self.beta, size, "one for each column kept")

    def shapes(self, columns: int | None) -> Shapes:
        return derivative_shapes(0, self.beta.size, self.detail)

    def answer(self, cohort: Cohort) -> Derivatives:
        stratum = self.agreed.prepared(cohort)
        if self.batch is not None:
            stratum = stratum.draw(self.batch.numbers())
        return stratum.derivatives(self.beta, self.detail)
