"""DT-FL-NEWTON: the exact optimum of the discrete-time model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_model import FAINT_RIDGE
from fedcox.evaluation.discrete_time_model import DiscreteTimeModel
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Solution


@dataclass(frozen=True)
class DiscreteTimeNewton(AbstractScheme):
    """What DT-FL would reach if it were trained to the end, in a handful of rounds.

    Where some coefficient has no optimum, the fit is repeated with a faint ridge, as Cox's.
    """

    name = "DT-FL-NEWTON"
    summary = "The discrete-time model's exact optimum, by Newton's method"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        model = DiscreteTimeModel.agreed(federation, recipe, every_column=bool(recipe.ridge))
        solution = Newton().minimise(federation, model.problem())
        notes = []
        if not recipe.ridge and (solution.separated.any() or not solution.converged):
            notes.append(_trouble(solution))
            mark = model.mark
            model = DiscreteTimeModel.agreed(federation, recipe, every_column=True)
            model = replace(model, mark=mark)
            faint = np.full(model.setting.columns, FAINT_RIDGE)
            solution = Newton().minimise(federation, replace(model.problem(), ridge=faint))
        if not solution.converged:
            notes.append("The discrete-time model was left before its optimum was reached.")
        return model.trained(solution.beta, tuple(notes))


def _trouble(solution: Solution) -> str:
    if solution.separated.any():
        what = "some coefficient grows without bound"
    else:
        what = "the solver did not reach an optimum"
    return (
        f"The discrete-time model: {what}; fitted again with a ridge of {FAINT_RIDGE:g} on "
        "standardised covariates."
    )
