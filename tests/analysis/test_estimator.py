"""DiscreteTimeCox among scikit-learn's tools."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines.utils import concordance_index
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv

from fedcox import DiscreteTimeCox
from fedcox.analysis.fit import fit
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.errors import (
    AliasedColumnsWarning,
    CohortError,
    EmptyIntervalsWarning,
    FedcoxWarning,
    StudyError,
)
from tests.problems import LINK_NAMES, READINGS, simulated

COHORT = simulated(250, 3, seed=12)
X = COHORT.covariates
PAIR = (COHORT.time, COHORT.event)
STRUCTURED = Surv.from_arrays(COHORT.event, COHORT.time)
COLUMNS = np.column_stack(PAIR)
HORIZON = 120.0  # up to here every interval has an event


def model(**settings: Any) -> DiscreteTimeCox:
    return DiscreteTimeCox(**{"width": 20, "horizon": HORIZON, **settings})


# The grammar


def test_settings_are_kept_as_given_and_read_back() -> None:
    settings = {
        "width": 30,
        "horizon": 90,
        "link": "logit",
        "censored_interval": "half",
        "ridge": 2,
        "solver": "lbfgs",
    }
    estimator = DiscreteTimeCox(**settings)  # type: ignore[arg-type]
    assert estimator.get_params() == settings
    assert set(settings) == set(inspect.signature(DiscreteTimeCox).parameters)
    assert DiscreteTimeCox().set_params(**settings).get_params() == settings
    with pytest.raises(ValueError, match="depth: no such setting"):
        estimator.set_params(depth=3)


def test_a_clone_has_the_settings_and_nothing_that_was_learnt() -> None:
    fitted = model(ridge=1.5).fit(X, PAIR)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "coef_")
    assert clone(copy) is not copy


def test_the_text_names_what_differs_from_the_default() -> None:
    assert repr(DiscreteTimeCox()) == "DiscreteTimeCox()"
    assert repr(DiscreteTimeCox(width=30, link="logit")) == (
        "DiscreteTimeCox(width=30, link='logit')"
    )


def test_fitting_returns_the_estimator_and_leaves_its_settings_alone() -> None:
    estimator = model()
    before = estimator.get_params()
    assert estimator.fit(X, PAIR) is estimator
    assert estimator.get_params() == before
    assert estimator.n_features_in_ == 3


def test_fitting_again_forgets_the_first_fit() -> None:
    estimator = model().fit(X, PAIR)
    estimator.fit(X[:, :2], PAIR)
    np.testing.assert_array_equal(estimator.coef_, model().fit(X[:, :2], PAIR).coef_)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    estimator.fit(frame, PAIR)
    assert list(estimator.feature_names_in_) == ["u", "v", "w"]
    estimator.fit(X, PAIR)
    assert not hasattr(estimator, "feature_names_in_")


def test_neither_patients_nor_outcomes_are_changed() -> None:
    x, time, event = X.copy(), COHORT.time.copy(), COHORT.event.copy()
    model().fit(x, (time, event)).predict(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(time, COHORT.time)
    x[0] = 1.0  # still writable


@pytest.mark.parametrize(
    "y",
    [
        PAIR,
        STRUCTURED,
        COLUMNS,
        COLUMNS.tolist(),
        pd.DataFrame({"time": COHORT.time, "event": COHORT.event}),
        pd.DataFrame({"time": COHORT.time, "event": COHORT.event.astype(int)}),
        (pd.Series(COHORT.time), pd.Series(COHORT.event.astype(int))),
        (COHORT.time.tolist(), COHORT.event.astype(float).tolist()),
    ],
    ids=["pair", "structured", "columns", "lists", "frame", "frame 0/1", "series", "list pair"],
)
def test_the_outcome_may_come_in_any_of_its_forms(y: Any) -> None:
    np.testing.assert_array_equal(model().fit(X, y).coef_, model().fit(X, PAIR).coef_)
    assert model().fit(X, PAIR).score(X, y) == model().fit(X, PAIR).score(X, PAIR)


def test_patients_may_come_as_a_data_frame() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"], index=np.arange(250)[::-1])
    estimator = model().fit(frame, STRUCTURED)
    assert list(estimator.feature_names_in_) == ["u", "v", "w"]
    np.testing.assert_array_equal(estimator.coef_, model().fit(X, PAIR).coef_)
    np.testing.assert_array_equal(estimator.predict(frame), estimator.predict(X))


def test_columns_in_another_order_are_refused() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    estimator = model().fit(frame, PAIR)
    for wrong in (frame[["w", "v", "u"]], frame.rename(columns={"u": "other"})):
        with pytest.raises(CohortError, match="columns"):
            estimator.predict(wrong)


# The numbers


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_the_estimator_is_the_study_of_one_center(link: str, reading: str, solver: str) -> None:
    estimator = model(link=link, censored_interval=reading, solver=solver, ridge=0.5).fit(
        X, PAIR
    )
    study = Study(
        outcome={"time": "time", "event": "event"},
        covariates=["a", "b", "c"],
        grid={"width": 20, "horizon": HORIZON},
        model={"link": link, "censored_interval": reading, "ridge": 0.5},
        solver={"method": solver},
    )
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        time=COHORT.time, event=COHORT.event.astype(int)
    )
    ours = fit(study, InProcess.from_frame(study, frame))
    tolerance = 1e-12 if solver == "newton" else 1e-6
    np.testing.assert_allclose(estimator.coef_, ours.summary["coef"], rtol=tolerance)
    np.testing.assert_allclose(
        estimator.standard_errors_, ours.summary["se(coef)"], rtol=tolerance
    )
    np.testing.assert_allclose(
        estimator.standard_errors_**2, np.diag(estimator.covariance_), rtol=1e-12
    )
    assert estimator.log_likelihood_ == pytest.approx(ours.log_likelihood, rel=1e-12)
    np.testing.assert_array_equal(estimator.edges_, ours.edges)
    np.testing.assert_allclose(
        estimator.predict_survival_function(X, return_array=True),
        ours.predict_survival(frame),
        rtol=max(tolerance, 1e-10) * 10,
    )


def test_without_a_width_every_event_time_is_an_instant_as_in_cox() -> None:
    estimator = DiscreteTimeCox().fit(X, PAIR)
    np.testing.assert_array_equal(estimator.edges_, np.unique(COHORT.time[COHORT.event]))
    cox = CoxPHSurvivalAnalysis(ties="breslow").fit(X, STRUCTURED)
    np.testing.assert_allclose(
        estimator.coef_, cox.coef_, atol=0.3 * estimator.standard_errors_.min()
    )


def test_higher_predictions_are_worse() -> None:
    estimator = model().fit(X, PAIR)
    np.testing.assert_allclose(estimator.predict(X), X @ estimator.coef_, rtol=1e-12)
    assert estimator.score(X, PAIR) > 0.6
    survival = estimator.predict_survival_function(X, return_array=True)
    order = np.argsort(estimator.predict(X))
    assert (np.diff(survival[order], axis=0) <= 1e-12).all()


@pytest.mark.parametrize("y", [PAIR, STRUCTURED])
def test_the_score_is_lifelines_concordance(y: Any) -> None:
    estimator = model().fit(X, PAIR)
    expected = concordance_index(COHORT.time, -estimator.predict(X), COHORT.event)
    assert estimator.score(X, y) == pytest.approx(expected, abs=1e-14)


def by_hand(estimator: DiscreteTimeCox, x: Any, link: str) -> Any:
    """S at each edge by a plain product over intervals."""
    curve, survival = [], 1.0
    for alpha in estimator.alpha_:
        theta = float(alpha + x @ estimator.coef_)
        hazard = 1 / (1 + np.exp(-theta)) if link == "logit" else 1 - np.exp(-np.exp(theta))
        survival *= 1 - hazard
        curve.append(survival)
    return np.array(curve)


@pytest.mark.parametrize("link", LINK_NAMES)
def test_survival_and_cumulative_hazard_follow_from_baseline_and_coefficients(
    link: str,
) -> None:
    estimator = model(link=link).fit(X, PAIR)
    survival = estimator.predict_survival_function(X[:5], return_array=True)
    hazard = estimator.predict_cumulative_hazard_function(X[:5], return_array=True)
    assert survival.shape == hazard.shape == (5, estimator.edges_.size)
    for i in range(5):
        np.testing.assert_allclose(survival[i], by_hand(estimator, X[i], link), rtol=1e-10)
    np.testing.assert_allclose(hazard, -np.log(survival), rtol=1e-10)


def test_curves_are_step_functions_unless_arrays_are_asked_for() -> None:
    estimator = model().fit(X, PAIR)
    table = estimator.predict_survival_function(X[:2], return_array=True)
    curves = estimator.predict_survival_function(X[:2])
    hazards = estimator.predict_cumulative_hazard_function(X[:2])
    assert curves.shape == (2,)
    for i, (curve, hazard) in enumerate(zip(curves, hazards, strict=True)):
        np.testing.assert_array_equal(curve.x, estimator.edges_)
        np.testing.assert_array_equal(curve(estimator.edges_), table[i])
        assert curve(0.0) == 1.0
        assert curve(19.999) == 1.0
        assert curve(20.0) == curve(39.9) == table[i, 0]
        assert hazard(0.0) == 0.0
        assert hazard(40.0) == pytest.approx(-np.log(table[i, 1]))


def test_intervals_without_events_keep_survival_and_those_with_events_only_end_it() -> None:
    x = np.array([[0.0], [1.0], [0.5], [0.2], [0.9], [0.1]])
    y = ([1, 1, 3, 3, 4, 4], [1, 0, 1, 0, 1, 1])
    with pytest.warns(FedcoxWarning) as caught:
        estimator = DiscreteTimeCox(width=1, ridge=1.0).fit(x, y)
    assert {type(entry.message).__name__ for entry in caught} == {
        "EmptyIntervalsWarning",
        "EventsOnlyIntervalsWarning",
    }
    assert estimator.alpha_[1] == -np.inf
    assert estimator.alpha_[3] == np.inf
    survival = estimator.predict_survival_function(x, return_array=True)
    np.testing.assert_array_equal(survival[:, 1], survival[:, 0])
    assert (survival[:, 3] == 0).all()
    assert (survival[:, 2] > 0).all()


def test_an_aliased_column_has_no_effect_and_no_error() -> None:
    with pytest.warns(AliasedColumnsWarning, match="x3"):
        estimator = model().fit(np.column_stack([X, X[:, 0] - X[:, 1]]), PAIR)
    assert estimator.aliased_.tolist() == [False, False, False, True]
    assert estimator.coef_[3] == 0
    assert np.isnan(estimator.standard_errors_[3])
    np.testing.assert_allclose(estimator.coef_[:3], model().fit(X, PAIR).coef_, rtol=1e-9)


def test_warnings_point_at_the_caller() -> None:
    with pytest.warns(EmptyIntervalsWarning) as caught:
        DiscreteTimeCox(width=1).fit(X, PAIR)
    assert caught[0].filename == __file__


# scikit-learn's tools


@pytest.mark.parametrize("y", [STRUCTURED, COLUMNS], ids=["structured", "columns"])
def test_it_stands_at_the_end_of_a_pipeline(y: Any) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("cox", model())]).fit(X, y)
    plain = model().fit(X, PAIR)
    np.testing.assert_allclose(pipeline["cox"].coef_, plain.coef_ * X.std(axis=0), rtol=1e-8)
    assert pipeline.score(X, y) == pytest.approx(plain.score(X, PAIR), abs=1e-12)
    assert pipeline.predict(X).shape == (250,)
    pipeline.set_params(cox__ridge=3.0)
    assert pipeline["cox"].ridge == 3.0


def test_columns_may_be_selected_before_it() -> None:
    chosen = make_pipeline(SelectKBest(lambda x, y: x.var(axis=0), k=2), model())
    assert chosen.fit(X, STRUCTURED)[-1].coef_.shape == (2,)


@pytest.mark.parametrize("y", [STRUCTURED, COLUMNS], ids=["structured", "columns"])
def test_cross_validation_gives_concordances_of_left_out_patients(y: Any) -> None:
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model(horizon=80), X, y, cv=folds)
    expected = []
    for train, test in folds.split(X):
        cox = model(horizon=80).fit(X[train], (COHORT.time[train], COHORT.event[train]))
        risk = cox.predict(X[test])
        expected.append(concordance_index(COHORT.time[test], -risk, COHORT.event[test]))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_a_grid_search_finds_a_ridge() -> None:
    settings = {"cox__ridge": [0.0, 1.0, 1e6], "cox__link": ["logit", "cloglog"]}
    pipeline = Pipeline([("scale", StandardScaler()), ("cox", model(horizon=80))])
    search = GridSearchCV(pipeline, settings, cv=3).fit(X, STRUCTURED)
    assert search.best_params_.keys() == settings.keys()
    assert search.best_score_ > 0.6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_["cox"].coef_.shape == (3,)


# Errors


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X[:, 0], PAIR, "two: patients, columns"),
        (X.astype(str), PAIR, "not numbers|could not convert"),
        (np.where(X > 2, np.nan, X), PAIR, "missing values"),
        (np.where(X > 2, np.inf, X), PAIR, "infinite"),
        (X[:-1], PAIR, "they must agree"),
        (X, COHORT.time, "y must be"),
        (X, (COHORT.time, COHORT.event, COHORT.time), "y must be"),
        (X, (COHORT.time, 2 * COHORT.event), "true or false, or 1 or 0"),
        (X, (-COHORT.time, COHORT.event), "negative time"),
        (X, (np.where(COHORT.time > 99, np.nan, COHORT.time), COHORT.event), "no finite time"),
        (X, (COHORT.time, np.zeros(250)), "event"),
        (X[:1], ([3.0], [1]), "at least two"),
        (X, STRUCTURED[["time"]], "structured y needs"),
    ],
)
def test_wrong_patients_are_told_in_words(x: Any, y: Any, said: str) -> None:
    if getattr(x, "dtype", None) is not None and x.dtype.kind == "U":
        x = np.char.add(x, " mm")
    with pytest.raises(CohortError, match=said):
        model().fit(x, y)


@pytest.mark.parametrize(
    "settings",
    [
        {"link": "probit"},
        {"solver": "sgd"},
        {"censored_interval": "maybe"},
        {"width": 0},
        {"width": -3},
        {"horizon": np.inf},
        {"ridge": -1},
    ],
)
def test_wrong_settings_are_told_when_fitting(settings: dict[str, Any]) -> None:
    estimator = DiscreteTimeCox(**settings)
    with pytest.raises(StudyError, match=next(iter(settings))):
        estimator.fit(X, PAIR)


def test_predicting_needs_a_fit_and_the_same_columns() -> None:
    with pytest.raises(AttributeError, match="not fitted yet"):
        model().predict(X)
    with pytest.raises(CohortError, match="X has 2 columns; the fit had 3"):
        model().fit(X, PAIR).predict(X[:, :2])


def test_a_missing_value_is_not_predicted_from() -> None:
    with pytest.raises(CohortError, match="missing values"):
        model().fit(X, PAIR).predict(np.where(X > 2, np.nan, X))


def test_a_score_needs_patients_that_can_be_compared() -> None:
    with pytest.raises(CohortError, match="c-index does not exist"):
        model().fit(X, PAIR).score(X, (COHORT.time, np.zeros(250)))
