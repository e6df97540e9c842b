"""DT-FL: the discrete-time model on batches of stacked rows, as the paper trains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.discrete_time_model import DiscreteTimeModel
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.batch_training import BatchTraining


@dataclass(frozen=True)
class DiscreteTime(AbstractScheme):
    """Adam from α = 0, β = 0; the same path however the patients are split over centers."""

    name = "DT-FL"
    summary = "The discrete-time model on batches of stacked rows, by Adam"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        model = DiscreteTimeModel.agreed(
            federation, recipe, every_column=True, every_interval=True
        )
        training = BatchTraining(recipe.learning_rate, recipe.cell_batches)
        problem = model.problem(alpha=np.zeros(model.setting.intervals))
        sampler = model.sampler(recipe.cell_batch_size, seed)
        _, beta = training.train(federation, problem, sampler)
        return model.trained(beta)
