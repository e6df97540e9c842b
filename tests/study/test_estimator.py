"""DiscreteTimeCox among scikit-learn's tools."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter
from lifelines.utils import concordance_index
from scipy.sparse import csc_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, has_fit_parameter
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import integrated_brier_score
from sksurv.util import Surv

from fedcox import DiscreteTimeCox, errors
from fedcox.engines.in_process import InProcess
from fedcox.errors import (
    AliasedColumnsWarning,
    CohortError,
    ConstantColumnsWarning,
    EmptyIntervalsWarning,
    FedcoxError,
    FedcoxWarning,
    FilledCellsWarning,
    RidgeWarning,
    StudyError,
)
from fedcox.study.fit import fit
from fedcox.study.study import Study
from tests.problems import READINGS, simulated
from tests.stacked_glm import GLM_LINKS

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
        "missing": "mean",
        "threads": 1,
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


@pytest.mark.filterwarnings("ignore::fedcox.errors.RidgeWarning")
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", GLM_LINKS)
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


@pytest.mark.parametrize("link", GLM_LINKS)
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


def test_curves_end_at_the_horizon() -> None:
    estimator = model().fit(X, PAIR)
    curves = estimator.predict_survival_function(X[:2])
    hazards = estimator.predict_cumulative_hazard_function(X[:2])
    for curve in (*curves, *hazards):
        assert curve.domain == (0.0, HORIZON)
        assert curve(HORIZON) == curve.y[-1]
        for outside in (HORIZON + 0.01, [1.0, 1e9], -0.01, np.inf, np.nan):
            with pytest.raises(ValueError, match="outside 0 to 120"):
                curve(outside)
    longest = float(COHORT.time.max())
    for settings, end in (
        ({"width": 20}, longest),
        ({}, longest),  # the last event is earlier, and who is left was seen without one
        ({"horizon": HORIZON}, HORIZON),
        ({"horizon": 2 * longest}, longest),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedcoxWarning)
            estimator = DiscreteTimeCox(**settings).fit(X, PAIR)
        (curve,) = estimator.predict_survival_function(X[:1])
        assert estimator.horizon_ == curve.domain[1] == end
        assert curve(end) == curve.y[-1]


def test_curves_end_where_scikit_survivals_end() -> None:
    cox = CoxPHSurvivalAnalysis(ties="breslow").fit(X, STRUCTURED)
    (theirs,) = cox.predict_survival_function(X[:1])
    (ours,) = DiscreteTimeCox().fit(X, PAIR).predict_survival_function(X[:1])
    assert ours.domain == theirs.domain
    times = np.linspace(ours.x[0], ours.domain[1], 50)
    np.testing.assert_allclose(ours(times), theirs(times), atol=0.02)


def test_curves_are_judged_by_scikit_survivals_brier_score() -> None:
    curves = model().fit(X, STRUCTURED).predict_survival_function(X)
    times = np.arange(5.0, 110.0, 5.0)
    table = np.array([curve(times) for curve in curves])
    assert 0 < integrated_brier_score(STRUCTURED, STRUCTURED, table, times) < 0.25


# The tables


def test_the_summary_is_that_of_the_study_and_near_lifelines() -> None:
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    estimator = DiscreteTimeCox().fit(frame, PAIR)
    summary = estimator.summary_
    cox = CoxPHFitter().fit(frame.assign(t=COHORT.time, e=COHORT.event), "t", "e")
    assert list(summary.columns) == list(cox.summary.columns)
    assert list(summary.index) == ["u", "v", "w"]
    np.testing.assert_array_equal(summary["coef"], estimator.coef_)
    np.testing.assert_array_equal(summary["se(coef)"], estimator.standard_errors_)
    np.testing.assert_allclose(summary["se(coef)"], cox.summary["se(coef)"], rtol=0.02)
    np.testing.assert_allclose(summary["z"], cox.summary["z"], atol=0.1)
    np.testing.assert_allclose(estimator.covariance_, cox.variance_matrix_, atol=3e-4)
    assert DiscreteTimeCox().fit(X, PAIR).summary_.index.tolist() == ["x0", "x1", "x2"]


def test_who_reads_the_summary_of_a_fit_with_a_ridge_is_warned() -> None:
    estimator = model(ridge=2.0).fit(X, PAIR)  # no warning in every fit of a search
    with pytest.warns(RidgeWarning, match="A ridge of 2 pulls") as caught:
        _ = estimator.summary_
    assert caught[0].filename == __file__
    assert model().fit(X, PAIR).summary_.shape == (3, 11)


def test_the_baseline_is_a_table_by_interval() -> None:
    estimator = model().fit(X, PAIR)
    baseline = estimator.baseline_
    np.testing.assert_array_equal(baseline.index, estimator.edges_)
    assert baseline.index.name == "interval_end"
    nobody = estimator.predict_survival_function(np.zeros((1, 3)), return_array=True)[0]
    np.testing.assert_allclose(baseline["survival"], nobody, rtol=1e-12)
    np.testing.assert_allclose(
        1 - baseline["hazard"], nobody / np.append(1.0, nobody[:-1]), rtol=1e-10
    )
    assert baseline["at_risk"].iloc[0] == 250
    happened = COHORT.event & (COHORT.time <= HORIZON)
    assert baseline["events"].sum() == happened.sum()


def test_the_concordance_is_that_of_the_patients_of_the_fit() -> None:
    x, time, event = np.round(X), COHORT.time.copy(), COHORT.event.copy()
    estimator = model().fit(x, (time, event))
    expected = concordance_index(time, -estimator.predict(x), event)
    time[:] = 1.0  # the fit's are its own
    assert estimator.concordance_index_ == pytest.approx(expected, abs=1e-14)
    assert estimator.concordance_index_ == estimator.score(x, (COHORT.time, COHORT.event))
    changed = model().fit(x, PAIR)
    x[0, 0] += 1.0
    assert np.isnan(changed.concordance_index_)


def test_many_patients_have_a_concordance_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcox.survival.threads._WORTH", 100)  # summed over in several parts
    estimator = model().fit(X, PAIR)
    assert estimator.concordance_index_ == estimator.score(X, PAIR)


def test_a_stored_estimator_predicts_the_same_and_holds_no_patient() -> None:
    x = 1e5 * X + 0.123456789  # numbers that are nowhere else
    estimator = model().fit(x, PAIR)
    stored = pickle.dumps(estimator)
    assert x[7].tobytes() not in stored
    assert len(stored) < 8 * X.size
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.predict(x), estimator.predict(x))
    assert again.concordance_index_ == estimator.concordance_index_
    assert again.get_params() == estimator.get_params()
    pd.testing.assert_frame_equal(again.summary_, estimator.summary_)
    assert not hasattr(pickle.loads(pickle.dumps(model())), "coef_")


# Missing values


def test_missing_values_may_be_filled_with_the_mean_as_in_a_study() -> None:
    holes = X.copy()
    holes[::7, 1] = np.nan
    estimator = model(missing="mean").fit(holes, PAIR)
    study = Study(
        outcome={"time": "time", "event": "event"},
        covariates=["a", "b", "c"],
        grid={"width": 20, "horizon": HORIZON},
        model={"missing": "mean", "link": "cloglog"},
    )
    frame = pd.DataFrame(holes, columns=["a", "b", "c"])
    frame = frame.assign(time=COHORT.time, event=COHORT.event.astype(int))
    with pytest.warns(FilledCellsWarning):
        ours = fit(study, InProcess.from_frame(study, frame))
    np.testing.assert_allclose(estimator.coef_, ours.summary["coef"], rtol=1e-12)
    np.testing.assert_allclose(
        estimator.predict(holes), ours.predict_log_risk(frame), rtol=1e-9
    )
    assert estimator.concordance_index_ == pytest.approx(ours.concordance, abs=1e-12)
    np.testing.assert_allclose(estimator.mean_, np.nanmean(holes, axis=0), rtol=1e-12)
    nullable = pd.DataFrame(holes).convert_dtypes(convert_integer=False)
    np.testing.assert_array_equal(
        model(missing="mean").fit(nullable, PAIR).coef_, estimator.coef_
    )


def test_patients_without_a_value_may_be_left_out() -> None:
    holes = X.copy()
    holes[::7, 1] = np.nan
    complete = ~np.isnan(holes[:, 1])
    estimator = model(missing="drop").fit(holes, PAIR)
    alone = model().fit(X[complete], (COHORT.time[complete], COHORT.event[complete]))
    np.testing.assert_array_equal(estimator.coef_, alone.coef_)
    assert estimator.dropped_ == np.count_nonzero(~complete)
    assert alone.dropped_ == 0
    with pytest.raises(CohortError, match="missing values"):
        estimator.predict(holes)


def test_intervals_without_events_keep_survival_and_those_with_events_only_end_it() -> None:
    x = np.array([[0.0], [1.0], [0.5], [0.2], [0.9], [0.1]])
    y = ([1, 1, 3, 3, 4, 4], [1, 0, 1, 0, 1, 1])
    with pytest.warns(FedcoxWarning) as caught:
        estimator = DiscreteTimeCox(width=1, ridge=1.0).fit(x, y)
    assert {type(entry.message).__name__ for entry in caught} == {
        "CoarseTimeWarning",
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


@pytest.mark.parametrize("width", [1e12, 1e300])
def test_a_width_beyond_all_follow_up_is_one_interval(width: float) -> None:
    estimator = DiscreteTimeCox(width=width).fit(X, PAIR)
    assert estimator.edges_.tolist() == [COHORT.time.max()]
    wide = DiscreteTimeCox(width=float(COHORT.time.max())).fit(X, PAIR)
    np.testing.assert_array_equal(estimator.coef_, wide.coef_)


def test_columns_that_say_nothing_give_everybody_the_same_prediction() -> None:
    none = model().fit(X[:, :0], PAIR)
    assert none.predict(X[:, :0]).tolist() == [0.0] * 250
    assert none.concordance_index_ == 0.5
    assert none.summary_.shape == (0, 11)
    with pytest.warns(ConstantColumnsWarning):
        zeros = model().fit(np.zeros((250, 2)), PAIR)
    assert zeros.predict(np.zeros((250, 2))).tolist() == [0.0] * 250
    assert zeros.coef_.tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(zeros.alpha_, none.alpha_)


# scikit-learn's tools


class OneColumnOutcome(DiscreteTimeCox):
    """For scikit-learn's own checks, whose y is one column: it is the time of an event."""

    def fit(self, X: Any, y: Any, **others: Any) -> OneColumnOutcome:  # noqa: N803
        return super().fit(X, as_outcome(y), **others)

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        return super().score(X, as_outcome(y))


def as_outcome(y: Any) -> Any:
    if y is None or np.ndim(y) != 1:
        return y
    values = np.asarray(y)
    if values.dtype.kind in "OUS":
        values = np.unique(values, return_inverse=True)[1]
    values = values.astype(np.float64)
    first = np.min(values[np.isfinite(values)], initial=0.0)
    return values - first + 1, np.ones(values.size)


#: scikit-learn's checks that do not fit a survival model, and why.
OTHER_MANNERS = {
    "check_dtype_object": "an X that holds no numbers is a ValueError here, no TypeError",
    "check_estimators_empty_data_messages": "a model without columns has a baseline alone",
    "check_fit2d_1sample": "says patient, not sample",
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    results = check_estimator(OneColumnOutcome(ridge=1.0), on_fail=None, on_skip=None)
    failed = {
        one["check_name"]: one["exception"] for one in results if one["status"] == "failed"
    }
    assert failed.keys() == OTHER_MANNERS.keys(), failed
    assert len(results) > 30


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
        (X.astype(str), PAIR, "not numbers"),
        ([["a", "b"]] * 250, PAIR, "not numbers"),
        (X + 1j, PAIR, "Complex data not supported"),
        (X.astype("datetime64[D]"), PAIR, "not numbers"),
        (X, None, "requires y to be passed"),
        (X, ([f"{time} d" for time in COHORT.time], COHORT.event), "time in y must be numbers"),
        (X, (np.where(COHORT.time > 99, np.inf, COHORT.time), COHORT.event), "no finite time"),
        (X, (COHORT.time, np.where(COHORT.time > 99, np.nan, COHORT.event)), "true or false"),
        (X, (COHORT.time[1:], COHORT.event), "they must agree"),
        (X[:0], (COHORT.time[:0], COHORT.event[:0]), "at least two"),
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
        {"ridge": None},
        {"ridge": np.nan},
        {"width": "30"},
        {"width": True},
        {"missing": "ignore"},
    ],
)
def test_wrong_settings_are_told_when_fitting(settings: dict[str, Any]) -> None:
    estimator = DiscreteTimeCox(**settings)
    with pytest.raises(StudyError, match=next(iter(settings))):
        estimator.fit(X, PAIR)


@pytest.mark.parametrize(
    "ask",
    [
        lambda estimator: estimator.predict(X),
        lambda estimator: estimator.score(X, PAIR),
        lambda estimator: estimator.predict_survival_function(X),
        lambda estimator: estimator.predict_cumulative_hazard_function(X, return_array=True),
        lambda estimator: estimator.summary_,
        lambda estimator: estimator.baseline_,
        lambda estimator: estimator.concordance_index_,
        lambda estimator: check_is_fitted(estimator),
    ],
)
def test_before_a_fit_there_is_scikit_learns_own_error(ask: Any) -> None:
    for kind in (NotFittedError, ValueError, AttributeError):
        with pytest.raises(kind, match="not fitted yet"):
            ask(model())
    check_is_fitted(model().fit(X, PAIR))
    ask(model().fit(X, PAIR))


def test_that_error_is_ours_too_and_travels_between_processes() -> None:
    with pytest.raises(errors.NotFittedError) as caught:
        model().predict(X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, FedcoxError)
    assert isinstance(again, NotFittedError)
    assert str(again) == str(caught.value)


def test_without_scikit_learn_there_is_an_error_of_our_own() -> None:
    script = """
import sys
from fedcox import DiscreteTimeCox
from fedcox.errors import NotFittedError
try:
    DiscreteTimeCox().predict([[1.0]])
except NotFittedError as error:
    assert type(error) is NotFittedError and "sklearn" not in sys.modules
    sys.exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


def test_predicting_needs_the_columns_of_the_fit() -> None:
    with pytest.raises(CohortError, match="X has 2 features, but DiscreteTimeCox is expecting"):
        model().fit(X, PAIR).predict(X[:, :2])
    with pytest.raises(CohortError, match="infinite values"):
        model().fit(X, PAIR).predict(np.where(X > 2, np.inf, X))


def test_wrong_input_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="two: patients, columns"):
        model().fit(X[:, 0], PAIR)
    with pytest.raises(ValueError, match="settings cannot be used"):
        model(width=-1).fit(X, PAIR)


@pytest.mark.parametrize("sparse", [csr_matrix(X), csc_array(X)], ids=["matrix", "array"])
def test_sparse_patients_are_named_as_what_they_are(sparse: Any) -> None:
    for ask in (
        lambda: model().fit(sparse, PAIR),
        lambda: model().fit(X, PAIR).predict(sparse),
    ):
        with pytest.raises(ValueError, match=r"(?s)X is a sparse matrix.*toarray"):
            ask()


def test_weights_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="sample_weight is not supported"):
        model().fit(X, PAIR, sample_weight=np.ones(250))
    with pytest.raises(ValueError, match="sample_weight is not supported"):
        make_pipeline(StandardScaler(), model()).fit(
            X, STRUCTURED, discretetimecox__sample_weight=np.ones(250)
        )
    with pytest.raises(TypeError, match="no groups"):
        model().fit(X, PAIR, groups=np.ones(250))
    assert not has_fit_parameter(model(), "sample_weight")
    assert model().fit(X, PAIR, sample_weight=None).converged_


def test_a_missing_value_is_not_predicted_from() -> None:
    with pytest.raises(CohortError, match="missing values"):
        model().fit(X, PAIR).predict(np.where(X > 2, np.nan, X))


def test_a_score_needs_patients_that_can_be_compared() -> None:
    with pytest.raises(CohortError, match="c-index does not exist"):
        model().fit(X, PAIR).score(X, (COHORT.time, np.zeros(250)))
