"""DT-FL-NEWTON and PH-FL-NEWTON: the exact optimum of the hazard models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_model import FAINT_RIDGE
from fedcox.evaluation.hazard_model import HazardModel
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Solution


class AbstractExactOptimum(AbstractScheme):
    """What training on batches would reach if it went on to the end, in a handful of rounds.

    Where some coefficient has no optimum, the fit is repeated with a faint ridge, as Cox's.
    """

    federated = True
    #: Whether time is grouped.
    grouped: bool

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        link = recipe.link_of(grouped=self.grouped)
        model = HazardModel.agreed(federation, recipe, link, every_column=bool(recipe.ridge))
        solution = Newton().minimise(federation, model.problem())
        notes = [*recipe.notes_on(link)]
        if not recipe.ridge and (solution.separated.any() or not solution.converged):
            notes.append(_trouble(solution))
            mark = model.mark
            model = HazardModel.agreed(federation, recipe, link, every_column=True)
            model = replace(model, mark=mark)
            faint = np.full(model.setting.columns, FAINT_RIDGE)
            solution = Newton().minimise(federation, replace(model.problem(), ridge=faint))
        if not solution.converged:
            notes.append("The hazard model was left before its optimum was reached.")
        return model.trained(solution.beta, tuple(notes))


@dataclass(frozen=True)
class DiscreteTimeNewton(AbstractExactOptimum):
    """The end of DT-FL."""

    name = "DT-FL-NEWTON"
    summary = "The discrete-time model's exact optimum, by Newton's method"
    grouped = True


@dataclass(frozen=True)
class PiecewiseHazardsNewton(AbstractExactOptimum):
    """The end of PH-FL, and what `fedcox fit` gives between hospitals."""

    name = "PH-FL-NEWTON"
    summary = (
        "Proportional hazards, constant within pieces: the exact optimum, by Newton's method"
    )
    grouped = False


def _trouble(solution: Solution) -> str:
    if solution.separated.any():
        what = "some coefficient grows without bound"
    else:
        what = "the solver did not reach an optimum"
    return (
        f"The hazard model: {what}; fitted again with a ridge of {FAINT_RIDGE:g} on "
        "standardised covariates."
    )
