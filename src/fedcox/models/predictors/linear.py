"""φ as a sum: Cox's own model, whose coefficients are logarithms of ratios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcox.models.predictor import AbstractPredictor, TimeAndScale
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.person_periods import CellChoice
from fedcox.survival.preparation import PreparedPatients, prepare_placed
from fedcox.survival.scaling import linear_predictor


@dataclass(frozen=True)
class Linear(AbstractPredictor):
    """φ(x) = β·x on the scaled columns that are kept: its words are the queries' own."""

    prefix = ""
    has_curvature = True
    one_for_each = "one for each column kept"

    def parameters(self, columns: int) -> int:
        return columns

    def prepare(self, cohort: Cohort, setting: TimeAndScale) -> PreparedPatients:
        return prepare_placed(
            cohort, setting.placed(cohort), setting.intervals, setting.scaling, setting.link
        )

    def cell_gradient(
        self,
        cohort: Cohort,
        setting: TimeAndScale,
        cells: CellChoice,
        alpha: FloatArray,
        beta: FloatArray,
    ) -> Derivatives:
        return setting.cells(cohort).gradient(setting.link, cells, alpha, beta)

    def risk(self, cohort: Cohort, setting: TimeAndScale, beta: FloatArray) -> FloatArray:
        scaled = np.empty((cohort.patients, beta.size))
        setting.scaling.apply(cohort.covariates, out=scaled, complete=cohort.complete)
        return linear_predictor(scaled, beta)


LINEAR = Linear()


def linear_alone(predictor: AbstractPredictor) -> Iterator[str]:
    """A predictor without coefficients, for what is asked of them."""
    if not isinstance(predictor, Linear):
        yield "the setting's predictor must be linear"
