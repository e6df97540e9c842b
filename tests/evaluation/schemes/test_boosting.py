"""Boosted trees against XGBoost called directly."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import xgboost
from lifelines.utils import concordance_index

from fedcox.data.synthetic import simulate_paper_cohort
from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.evaluation.folds import fold_numbers
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes.boosting import Boosting
from fedcox.evaluation.seeds import derived_seed
from fedcox.survival.cohort import Cohort, FloatArray

#: Few trees, for speed; the paper's settings otherwise.
QUICK = Boosting(learning_rate=0.1, patience=20)
SEED = 7


def simulated(patients: int = 240, seed: int = 3) -> Cohort:
    drawn = simulate_paper_cohort(patients, 3, rng=np.random.default_rng(seed)).cohort
    days = np.ceil(drawn.time * 400)  # with ties
    return Cohort(drawn.covariates, days, drawn.event)


def risks(
    cohorts: dict[str, Cohort], *, seed: int = SEED, scheme: Boosting = QUICK
) -> FloatArray:
    trained = scheme.train(InProcess.from_cohorts(cohorts), Recipe(), seed)
    assert trained.notes == ()
    (model,) = trained.models
    return model.risk(simulated(seed=4).covariates)


def direct(cohort: Cohort) -> xgboost.DMatrix:
    """Labels as XGBoost's manual has them: the time, negative where censored."""
    label = np.where(cohort.event, cohort.time, -cohort.time)
    return xgboost.DMatrix(cohort.covariates, label=label)


SETTINGS = {
    "objective": "survival:cox",
    "eta": 0.1,
    "max_depth": 3,
    "subsample": 0.5,
    "seed": derived_seed(SEED, "trees"),
    "nthread": 1,
}


def test_the_risks_are_those_of_xgboost_with_rounds_by_its_own_cross_validation() -> None:
    cohort = simulated()
    number = fold_numbers({"BOOST": cohort}, 5, seed=SEED)["BOOST"]
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(1, 6)]
    history = xgboost.cv(
        SETTINGS,
        direct(cohort),
        num_boost_round=300,
        folds=folds,
        early_stopping_rounds=20,
        seed=SETTINGS["seed"],
    )
    booster = xgboost.train(SETTINGS, direct(cohort), num_boost_round=len(history))
    assert 5 < len(history) < 300
    theirs = booster.predict(xgboost.DMatrix(simulated(seed=4).covariates), output_margin=True)
    np.testing.assert_array_equal(risks({"a": cohort}), theirs)


def test_the_settings_are_the_papers() -> None:
    scheme = Boosting()
    assert (scheme.learning_rate, scheme.depth, scheme.subsample) == (0.01, 3, 0.5)
    assert scheme.folds == 5


def test_a_higher_risk_dies_sooner() -> None:
    cohort = simulated(600)
    seen = np.arange(cohort.patients) < 400
    federation = InProcess.from_cohorts({"a": cohort.take(seen)})
    (model,) = QUICK.train(federation, Recipe(), SEED).models
    test = cohort.take(~seen)
    assert concordance_index(test.time, -model.risk(test.covariates), test.event) > 0.65


def test_events_at_time_zero_are_events() -> None:
    cohort = simulated()
    early = replace(cohort, time=np.maximum(cohort.time - 30, 0.0))
    assert (early.event & (early.time == 0)).sum() > 5
    later = replace(early, time=early.time + 1)
    np.testing.assert_array_equal(risks({"a": early}), risks({"a": later}))
    without = replace(early, event=early.event & (early.time > 0))
    assert not np.array_equal(risks({"a": early}), risks({"a": without}))


def test_times_that_single_precision_would_tie_stay_apart() -> None:
    cohort = simulated()
    order = np.argsort(np.argsort(cohort.time, kind="stable"))
    near = replace(cohort, time=(10**9 + order).astype(np.float64))
    apart = replace(cohort, time=(1 + order).astype(np.float64))
    np.testing.assert_array_equal(risks({"a": near}), risks({"a": apart}))


def test_one_seed_gives_one_answer_and_another_seed_another() -> None:
    cohort = simulated()
    first, again, other = (risks({"a": cohort}, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("sizes", [(120, 120), (1, 200, 39), (0, 240), (80, 0, 159, 1)])
def test_any_split_of_the_patients_gives_the_same_trees(sizes: tuple[int, ...]) -> None:
    cohort = simulated()
    shuffled = np.random.default_rng(5).permutation(cohort.patients)
    parts = {}
    for place, end in enumerate(np.cumsum(sizes)):
        rows = shuffled[end - sizes[place] : end]
        parts[f"center {place}"] = Cohort(
            cohort.covariates[rows], cohort.time[rows], cohort.event[rows], rows
        )
    np.testing.assert_array_equal(risks(parts), risks({"a": cohort}))


def test_missing_values_are_no_obstacle() -> None:
    cohort = simulated()
    covariates = cohort.covariates.copy()
    covariates[::7, 0] = np.nan
    trained = QUICK.train(
        InProcess.from_cohorts({"a": replace(cohort, covariates=covariates)}), Recipe(), SEED
    )
    assert np.isfinite(trained.models[0].risk(covariates)).all()


def test_nobody_has_no_risk() -> None:
    trained = QUICK.train(InProcess.from_cohorts({"a": simulated()}), Recipe(), SEED)
    assert trained.models[0].risk(np.empty((0, 3))).shape == (0,)


def with_events(number: int) -> Cohort:
    cohort = simulated()
    kept = np.flatnonzero(cohort.event)[:number]
    return replace(cohort, event=np.isin(np.arange(cohort.patients), kept))


@pytest.mark.parametrize("events", [0, 1])
def test_without_two_events_there_is_no_model_and_it_is_said(events: int) -> None:
    federation = InProcess.from_cohorts({"a": with_events(events)})
    trained = QUICK.train(federation, Recipe(), SEED)
    assert trained.models == ()
    assert trained.notes == ("BOOST needs two training patients with the event.",)


def test_few_events_are_few_folds_and_it_is_said() -> None:
    trained = QUICK.train(InProcess.from_cohorts({"a": with_events(3)}), Recipe(), SEED)
    assert trained.notes == ("BOOST chose its number of trees in 3 folds, one per event.",)
    assert np.isfinite(trained.models[0].risk(simulated().covariates)).all()


def test_a_search_that_is_cut_off_is_said() -> None:
    scheme = replace(QUICK, learning_rate=0.001, most_trees=5)
    trained = scheme.train(InProcess.from_cohorts({"a": simulated()}), Recipe(), SEED)
    assert trained.notes == ("BOOST's loss still fell at 5 trees, the most it takes.",)


def test_without_xgboost_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(InputError, match=r"pip install 'fedcox\[experiments\]'"):
        QUICK.train(InProcess.from_cohorts({"a": simulated()}), Recipe(), SEED)
    with pytest.raises(InputError, match=r"pip install 'fedcox\[experiments\]'"):
        QUICK.check()


def test_xgboost_is_loaded_only_where_trees_are_grown() -> None:
    code = "import sys, fedcox.evaluation.schemes; sys.exit('xgboost' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
