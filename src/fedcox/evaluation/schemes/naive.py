"""N-FL: naive federated learning, Cox's loss stratified by center on minibatches."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_batches import train_cox_on_batches
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained


@dataclass(frozen=True)
class Naive(AbstractScheme):
    """The risk set of a patient is everyone in the batch *and* the center observed as long.

    Batches are drawn over all patients, as MINI's are, and every center takes its share.
    """

    name = "N-FL"
    summary = "Cox's loss stratified by center, on minibatches, by Adam"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        return train_cox_on_batches(federation, recipe, seed)
