"""FEDAVG: the study's own hazard model by federated averaging."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.hazard_model import HazardModel
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.survival.link import LINKS


@dataclass(frozen=True)
class FedAvg(AbstractScheme):
    """Local steps on all own patients between rounds: fewer messages, another optimum."""

    rounds: int = 100
    local_steps: int = 5
    learning_rate: float = 0.2

    name = "FEDAVG"
    summary = "The study's own hazard model by federated averaging"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        model = HazardModel.agreed(federation, recipe, LINKS[recipe.link], every_column=True)
        averaging = FederatedAveraging(self.learning_rate, self.rounds, self.local_steps)
        _, beta = averaging.train(federation, model.problem())
        return model.trained(beta)
