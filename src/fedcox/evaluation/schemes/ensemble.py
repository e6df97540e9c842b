"""ENS: the mean of the log risks that the centers' own Cox models give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.scheme import AbstractScheme, Recipe, RiskModel, Trained
from fedcox.evaluation.schemes.local import Local
from fedcox.federation.ledger import BYTES_PER_NUMBER
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True, eq=False)
class MeanRisk:
    """The mean of several models' log risks."""

    models: tuple[RiskModel, ...]

    def risk(self, covariates: FloatArray) -> FloatArray:
        return np.asarray(np.mean([model.risk(covariates) for model in self.models], axis=0))


@dataclass(frozen=True)
class Ensemble(AbstractScheme):
    """One round: every center sends its model, coefficients and means, once."""

    name = "ENS"
    summary = "The mean of the log risks of the centers' own Cox models"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        local = Local().train(federation, recipe, seed)
        if not local.models:
            return local
        numbers = 2 * federation.centers[0].cohort.columns * len(local.models)
        return Trained(
            (MeanRisk(local.models),),
            local.notes,
            rounds=1,
            bytes_up=BYTES_PER_NUMBER * numbers,
        )
