"""WebDISCO's questions: sums over events, and over the risk set at every event time.

Both give patients away, so a center answers them in experiments only. They are no
`AbstractSumQuery`, although they are sums: every center is to decide for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.query import AbstractQuery, Agreed
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.risk_set_moments import (
    EventSums,
    PatientsByTime,
    RiskSetMoments,
    event_sums,
)
from fedcox.survival.scaling import Scaling


@dataclass(frozen=True, eq=False)
class RiskSetSetting(Agreed):
    """The common scale, and every distinct event time of the study in increasing order.

    A center gets it once and orders its patients by it; later questions only refer to it.
    """

    scaling: Scaling
    times: FloatArray
    _prepared: WeakKeyDictionary[Cohort, PatientsByTime] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def numbers(self) -> int:
        """How many numbers describe this setting."""
        return self.scaling.numbers + int(self.times.size)

    def prepared(self, cohort: Cohort) -> PatientsByTime:
        """The cohort ready to be summed over, made at the first question and kept."""
        prepared = self._prepared.get(cohort)
        if prepared is None:
            prepared = PatientsByTime.of(cohort, self.scaling, self.times)
            self._prepared[cohort] = prepared
        return prepared


@dataclass(frozen=True, eq=False)
class EventSumsAt(AbstractQuery[EventSums]):
    """How many events at each of the times, and the sum of their covariates less `mean`."""

    words: ClassVar = {
        "events at every event time": "events at every event time, and their covariates"
    }
    patient_level = True
    experimental = True

    times: FloatArray
    mean: FloatArray

    @property
    def numbers(self) -> int:
        return self.times.size + self.mean.size

    def answer(self, cohort: Cohort) -> EventSums:
        return event_sums(cohort, self.mean, self.times)

    def combine(self, left: EventSums, right: EventSums) -> EventSums:
        return left + right


@dataclass(frozen=True, eq=False)
class RiskSetSumsAt(AbstractQuery[RiskSetMoments]):
    """Σ w, Σ w·x and for curvature Σ w·x·xᵀ, w = exp(β·x), over each event time's risk set."""

    words: ClassVar = {
        f"risk-set sums: {detail.value}": "sums over everyone at risk at every event time"
        for detail in Detail
    }
    patient_level = True
    experimental = True

    agreed: RiskSetSetting
    beta: FloatArray
    detail: Detail

    @property
    def name(self) -> str:
        return f"risk-set sums: {self.detail.value}"

    @property
    def numbers(self) -> int:
        return self.beta.size

    @property
    def setting(self) -> RiskSetSetting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return np.empty(0), self.beta

    def answer(self, cohort: Cohort) -> RiskSetMoments:
        return self.agreed.prepared(cohort).moments(self.beta, self.detail)

    def combine(self, left: RiskSetMoments, right: RiskSetMoments) -> RiskSetMoments:
        return left + right
