"""DT-FL and PH-FL: hazard models on batches of stacked rows, as the paper trains its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.hazard_model import HazardModel
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.batch_training import BatchTraining


class AbstractCellBatches(AbstractScheme):
    """Adam from β = 0; the same path however the patients are split over centers.

    Grouped time begins at α = 0, as in the paper; pieces, where zero is no likely hazard, at
    the observed ones.
    """

    federated = True
    #: Whether time is grouped.
    grouped: bool

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        link = recipe.link_of(grouped=self.grouped)
        model = HazardModel.agreed(
            federation, recipe, link, every_column=True, every_interval=self.grouped
        )
        training = BatchTraining(recipe.learning_rate, recipe.cell_batches)
        alpha = np.zeros(model.setting.intervals) if self.grouped else None
        sampler = model.sampler(recipe.cell_batch_size, seed)
        _, beta = training.train(federation, model.problem(alpha=alpha), sampler)
        return model.trained(beta, recipe.notes_on(link))


@dataclass(frozen=True)
class DiscreteTime(AbstractCellBatches):
    """The paper's scheme."""

    name = "DT-FL"
    summary = "The discrete-time model on batches of stacked rows, by Adam"
    grouped = True


@dataclass(frozen=True)
class PiecewiseHazards(AbstractCellBatches):
    """The same with time at risk as it was."""

    name = "PH-FL"
    summary = (
        "Proportional hazards, constant within pieces, on batches of stacked rows, by Adam"
    )
    grouped = False
