"""N-FL-EXACT: the optimum that naive federated learning aims at, Cox stratified by center."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_model import CoxTraining
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained


@dataclass(frozen=True)
class Stratified(AbstractScheme):
    """Every patient is compared with those of the own center only."""

    name = "N-FL-EXACT"
    summary = "Cox's model stratified by center, by Newton's method"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        return CoxTraining(recipe.ties, recipe.ridge).train(federation)
