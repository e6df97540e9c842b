"""BOOST: gradient-boosted trees on Cox's partial likelihood, on pooled patients.

XGBoost's `survival:cox` with the settings of the paper's appendix C. How many trees: an inner
cross-validation on the training patients grows all folds side by side and takes the number at
which the mean partial likelihood of the patients left out is best, as `xgboost.cv` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.evaluation.folds import fold_numbers
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained, pooled
from fedcox.evaluation.seeds import derived_seed
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray

if TYPE_CHECKING:
    import xgboost


@dataclass(frozen=True, eq=False)
class BoostedRisk:
    """The sum of the trees: a log hazard ratio up to a constant. Missing values are allowed."""

    booster: xgboost.Booster

    def risk(self, covariates: FloatArray) -> FloatArray:
        if not len(covariates):
            return np.empty(0)
        margin = self.booster.inplace_predict(covariates, predict_type="margin")
        return np.asarray(margin, dtype=np.float64)


@dataclass(frozen=True)
class Boosting(AbstractScheme):
    """`folds` is the inner cross-validation's, with at least one event in each.

    It stops when `patience` more trees have not bettered the best loss, or at `most_trees`.
    Nothing in the recipe of the other schemes concerns it.
    """

    learning_rate: float = 0.01
    depth: int = 3
    subsample: float = 0.5
    folds: int = 5
    patience: int = 100
    most_trees: int = 3000

    name = "BOOST"
    summary = "Boosted trees on Cox's loss, patients pooled (XGBoost)"
    federated = False

    def check(self) -> None:
        _xgboost()

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        patients = pooled(federation).centers[0].cohort
        # In the order of their numbers, the trees do not depend on who lies in which center.
        patients = patients.take(np.argsort(patients.number))
        events = int(patients.event.sum())
        if events < 2:
            return Trained((), notes=("BOOST needs two training patients with the event.",))
        folds = min(self.folds, events)
        settings = self._settings(seed)
        trees, finished = self._trees(patients, folds, settings, seed)
        booster = _xgboost().train(settings, _matrix(patients), num_boost_round=trees)
        notes = []
        if folds < self.folds:
            notes.append(f"BOOST chose its number of trees in {folds} folds, one per event.")
        if not finished:
            notes.append(
                f"BOOST's loss still fell at {self.most_trees:,} trees, the most it takes."
            )
        return Trained((BoostedRisk(booster),), notes=tuple(notes))

    def _settings(self, seed: int) -> dict[str, Any]:
        return {
            "objective": "survival:cox",
            "eval_metric": "cox-nloglik",
            "eta": self.learning_rate,
            "max_depth": self.depth,
            "subsample": self.subsample,
            "tree_method": "hist",
            "nthread": 1,  # an evaluation runs its folds side by side
            "seed": derived_seed(seed, "trees"),
            "verbosity": 0,
        }

    def _trees(
        self, patients: Cohort, folds: int, settings: dict[str, Any], seed: int
    ) -> tuple[int, bool]:
        """The best number of trees, and whether the search for it came to its end."""
        number = fold_numbers({self.name: patients}, folds, seed=seed)[self.name]
        growing = [_Fold.of(patients, number == fold, settings) for fold in range(1, folds + 1)]
        best, trees = np.inf, 1
        for round_ in range(self.most_trees):
            loss = float(np.mean([fold.grow(round_) for fold in growing]))
            if loss < best:
                best, trees = loss, round_ + 1
            elif round_ + 1 - trees >= self.patience:
                return trees, True
        return trees, False


@dataclass(frozen=True, eq=False)
class _Fold:
    """One booster of the inner cross-validation, and the patients it is judged on."""

    booster: xgboost.Booster
    training: xgboost.DMatrix
    left_out: xgboost.DMatrix

    @classmethod
    def of(cls, patients: Cohort, left_out: BoolArray, settings: dict[str, Any]) -> _Fold:
        training, test = (_matrix(patients.take(rows)) for rows in (~left_out, left_out))
        return cls(_xgboost().Booster(settings, [training, test]), training, test)

    def grow(self, round_: int) -> float:
        """Add a tree; the loss per event of the patients left out."""
        self.booster.update(self.training, round_)
        line = self.booster.eval_set([(self.left_out, "left out")], round_)
        return float(line.rpartition(":")[2])


def _matrix(patients: Cohort) -> xgboost.DMatrix:
    """Labels are places in the order of times, from 1, negative for a censored patient.

    The partial likelihood knows nothing of times but their order. So a time of zero, whose
    sign would say nothing, is as good as any other, and single precision ties no two times.
    """
    place = np.unique(patients.time, return_inverse=True)[1] + 1.0
    label = np.where(patients.event, place, -place)
    matrix: xgboost.DMatrix = _xgboost().DMatrix(patients.covariates, label=label, nthread=1)
    return matrix


def _xgboost() -> Any:
    """The library, loaded only where trees are grown."""
    try:
        import xgboost
    except ImportError:
        raise InputError(
            "BOOST needs XGBoost, which is not installed.",
            ["Install it: pip install 'fedcox[experiments]'", "Or leave BOOST out."],
        ) from None
    return xgboost
