"""FLamby's Fed-TCGA-BRCA, on its own training and test patients."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.folds import fold_numbers
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes import SCHEMES
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "tcga" / "fed_tcga_brca"
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"FLamby's tables are not in {FOLDER}"
)


@cache
def patients() -> tuple[dict[str, Cohort], Cohort]:
    """Training patients by center, and all test patients."""
    table = pd.read_csv(FOLDER / "brca.csv").merge(
        pd.read_csv(FOLDER / "train_test_split.csv"), on="pid", validate="one_to_one"
    )
    columns = [name for name in table if name not in {"pid", "E", "T", "fold", "fold2"}]
    event = (table["E"] == 1).to_numpy()
    everyone = Cohort(table[columns].to_numpy(), table["T"].to_numpy(), event)
    centers = {
        str(label): everyone.take((table["fold2"] == label).to_numpy())
        for label in sorted(table["fold2"].unique())
        if str(label).startswith("train")
    }
    return centers, everyone.take((table["fold"] == "test").to_numpy())


def index_of(centers: dict[str, Cohort], test: Cohort, recipe: Recipe) -> float:
    (model,) = (
        SCHEMES["DT-FL-NEWTON"].train(InProcess.from_cohorts(centers), recipe, seed=0).models
    )
    index = concordance_index(test.time, test.event, model.risk(test.covariates)).index
    assert index is not None
    return index


def test_the_split_is_flambys() -> None:
    centers, test = patients()
    assert [cohort.patients for cohort in centers.values()] == [248, 156, 164, 129, 129, 40]
    assert (test.patients, test.columns) == (222, 39)


def test_a_small_ridge_reaches_the_best_published_index() -> None:
    """FLamby's federated strategies have 0.66 to 0.84 on these test patients."""
    assert index_of(*patients(), Recipe(width=30.0, ridge=1.0)) >= 0.83


def test_a_ridge_chosen_on_the_training_patients_reaches_it_too() -> None:
    centers, test = patients()
    fold = fold_numbers(centers, 5, seed=0)
    means = {}
    for ridge in RIDGES:
        recipe = Recipe(width=30.0, ridge=ridge)
        found = []
        for number in range(1, 6):
            inside = {name: c.take(fold[name] != number) for name, c in centers.items()}
            held = [c.take(fold[name] == number) for name, c in centers.items()]
            left_out = Cohort(
                np.concatenate([part.covariates for part in held]),
                np.concatenate([part.time for part in held]),
                np.concatenate([part.event for part in held]),
            )
            found.append(index_of(inside, left_out, recipe))
        means[ridge] = float(np.mean(found))
    best = max(means, key=lambda ridge: means[ridge])
    assert index_of(centers, test, Recipe(width=30.0, ridge=best)) >= 0.83
