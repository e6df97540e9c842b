"""POOL: Cox's model on pooled patients, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_model import CoxTraining
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained, pooled


@dataclass(frozen=True)
class Pooled(AbstractScheme):
    """What every federated scheme would like to equal."""

    name = "POOL"
    summary = "Cox's model on pooled patients, by Newton's method"
    federated = False

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        trained = CoxTraining(recipe.ties, recipe.ridge).train(pooled(federation))
        return replace(trained, rounds=0, bytes_up=0, bytes_down=0)
