"""Where the samples of a network stand in time: one row per slide, or per patient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.time_at_risk import TimeAtRisk


@dataclass(frozen=True, eq=False)
class PlacedSamples:
    """In which fitted intervals each sample is at risk, as in `TimeAtRisk`, and its weight."""

    passed: Tensor  # (samples,) int64: at risk in the first so many, without the event
    event: Tensor  # (samples,) bool: with the event in the next one
    part: Tensor  # (samples,) float64: at risk by so much of the next one, beside the event
    weight: Tensor  # (samples,) float64

    @classmethod
    def of(
        cls,
        risk: TimeAtRisk,
        patient: IntArray | None = None,
        weight: FloatArray | None = None,
        device: str = "cpu",
    ) -> PlacedSamples:
        """Samples that belong to the rows `patient` of `risk`; one for each without it."""
        rows = np.arange(risk.passed.size) if patient is None else patient
        own = np.ones(rows.size) if weight is None else weight
        return cls(
            torch.tensor(risk.passed[rows], dtype=torch.int64, device=device),
            torch.tensor(risk.event[rows], dtype=torch.bool, device=device),
            torch.tensor(risk.part[rows], dtype=torch.float64, device=device),
            torch.tensor(own, dtype=torch.float64, device=device),
        )

    def take(self, samples: Tensor | slice) -> PlacedSamples:
        """Some samples; one may be taken several times."""
        return PlacedSamples(
            self.passed[samples],
            self.event[samples],
            self.part[samples],
            self.weight[samples],
        )

    def weighing(self, factor: Tensor) -> PlacedSamples:
        """The same samples, each weighing so many times as much."""
        return PlacedSamples(self.passed, self.event, self.part, self.weight * factor)
