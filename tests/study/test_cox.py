"""Cox's model against lifelines, scikit-survival and statsmodels, over any split."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import CoxPHFitter
from lifelines.datasets import load_gbsg2, load_lung, load_rossi
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv
from statsmodels.duration.hazard_regression import PHReg

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, InputError, RefusedError
from fedcox.federation.center import Center
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.cox import CoxFit, fit_cox
from fedcox.survival.cohort import Cohort, IntArray
from fedcox.survival.partial_likelihood import Ties
from tests.problems import simulated, split

TIES: tuple[Ties, ...] = ("breslow", "efron")
SOLVERS: dict[str, AbstractSolver] = {
    "newton": Newton(),
    "lbfgs by the diagonal": LBFGS(scaling="diagonal", tolerance=1e-20),
    "lbfgs by the block": LBFGS(scaling="block", tolerance=1e-20),
}


def rossi() -> tuple[pd.DataFrame, str]:
    frame = load_rossi().rename(columns={"week": "time", "arrest": "event"})
    return frame, "race"


def lung() -> tuple[pd.DataFrame, str]:
    frame = load_lung().dropna()
    return frame.rename(columns={"status": "event"}), "inst"


def gbsg2() -> tuple[pd.DataFrame, str]:
    frame = load_gbsg2().rename(columns={"cens": "event"})
    for name in ("horTh", "menostat", "tgrade"):
        frame[name] = frame[name].astype("category").cat.codes.astype(float)
    return frame, "tgrade"


#: A table, and the column that says which center a patient is in.
DATASETS = {"rossi": rossi, "lung": lung, "gbsg2": gbsg2}


@cache
def dataset(name: str) -> tuple[pd.DataFrame, str]:
    frame, center = DATASETS[name]()
    return frame.astype(float), center


def cohort_of(frame: pd.DataFrame, without: tuple[str, ...] = ()) -> Cohort:
    covariates = frame.drop(columns=["time", "event", *without])
    return Cohort(
        covariates.to_numpy(np.float64),
        frame["time"].to_numpy(np.float64),
        frame["event"].to_numpy(np.float64) == 1,
    )


def pooled(cohort: Cohort, **choices: Any) -> CoxFit:
    return fit_cox(InProcess.from_cohorts({"all": cohort}), **choices)


def lifelines_fit(frame: pd.DataFrame, strata: list[str] | None = None) -> CoxPHFitter:
    """To rounding: the defaults stop four digits earlier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' own, and low variance in some stratum
        return CoxPHFitter().fit(
            frame,
            "time",
            "event",
            strata=strata,
            fit_options={"precision": 1e-20, "r_precision": 0.0},
        )


@pytest.mark.parametrize("name", DATASETS)
def test_pooled_efron_is_lifelines(name: str) -> None:
    frame, _ = dataset(name)
    found, other = pooled(cohort_of(frame)), lifelines_fit(frame)
    np.testing.assert_allclose(found.coefficients, other.params_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.standard_errors, other.standard_errors_, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, other.variance_matrix_, rtol=1e-6, atol=1e-12)
    assert found.log_likelihood == pytest.approx(other.log_likelihood_, abs=1e-8)
    assert found.converged
    assert not found.separated.any()
    assert not found.aliased.any()
    assert (found.patients, found.events) == (len(frame), frame["event"].sum())


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", DATASETS)
def test_pooled_coefficients_are_scikit_survivals(name: str, ties: Ties) -> None:
    frame, _ = dataset(name)
    cohort = cohort_of(frame)
    model = CoxPHSurvivalAnalysis(ties=ties, tol=1e-15, n_iter=500)
    # Its Newton steps are steadier on standardised columns.
    spread = cohort.covariates.std(axis=0)
    model.fit(
        (cohort.covariates - cohort.covariates.mean(axis=0)) / spread,
        Surv.from_arrays(cohort.event, cohort.time),
    )
    found = pooled(cohort, ties=ties)
    np.testing.assert_allclose(found.coefficients, model.coef_ / spread, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", DATASETS)
def test_pooled_standard_errors_are_statsmodels(name: str, ties: Ties) -> None:
    frame, _ = dataset(name)
    cohort = cohort_of(frame)
    spread = cohort.covariates.std(axis=0)
    model = PHReg(cohort.time, cohort.covariates / spread, status=cohort.event, ties=ties)
    other = model.fit(disp=0)
    found = pooled(cohort, ties=ties)
    np.testing.assert_allclose(found.coefficients, other.params / spread, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.standard_errors, other.bse / spread, rtol=1e-7)
    assert found.log_likelihood == pytest.approx(other.llf, abs=1e-8)


@pytest.mark.parametrize("name", DATASETS)
def test_with_several_centers_it_is_lifelines_with_strata(name: str) -> None:
    frame, center = dataset(name)
    parts = {
        str(key): cohort_of(part, without=(center,)) for key, part in frame.groupby(center)
    }
    assert len(parts) > 1
    found = fit_cox(InProcess.from_cohorts(parts))
    other = lifelines_fit(frame, strata=[center])
    np.testing.assert_allclose(found.coefficients, other.params_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.standard_errors, other.standard_errors_, rtol=1e-7)
    assert found.log_likelihood == pytest.approx(other.log_likelihood_, abs=1e-8)


@st.composite
def splits(draw: st.DrawFn, total: int) -> tuple[IntArray, int]:
    """A center for each patient: some are empty, some have one patient."""
    centers = draw(st.integers(1, 12))
    evenness = draw(st.sampled_from([0.05, 0.3, 2.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.choice(centers, size=total, p=rng.dirichlet(np.full(centers, evenness))), centers


def experiment(cohort: Cohort, centers: tuple[IntArray, int]) -> InProcess:
    return InProcess(
        [
            Center(name, part, allow_experiments=True)
            for name, part in split(cohort, *centers).items()
        ]
    )


@cache
def tied_patients() -> Cohort:
    """Two of them have the event at time zero."""
    cohort = simulated(80, 3, seed=21, unit=15.0)
    time = cohort.time.copy()
    time[np.flatnonzero(cohort.event)[:2]] = 0.0
    return Cohort(cohort.covariates, time, cohort.event)


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=20)
@given(centers=splits(80))
def test_webdisco_is_the_pooled_model_for_any_split(
    solver: str, centers: tuple[IntArray, int]
) -> None:
    expected = pooled(tied_patients(), ties="breslow")
    found = fit_cox(
        experiment(tied_patients(), centers),
        ties="breslow",
        loss="webdisco",
        solver=SOLVERS[solver],
    )
    assert found.converged
    np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-8)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-9)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_reaches_the_stratified_optimum(solver: str, ties: Ties) -> None:
    federation = experiment(tied_patients(), (np.arange(80) % 3, 3))
    expected = fit_cox(federation, ties=ties)
    found = fit_cox(federation, ties=ties, solver=SOLVERS[solver])
    assert found.converged
    np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-7)


@pytest.mark.parametrize("ties", TIES)
def test_a_hundred_centers_stay_strata(ties: Ties) -> None:
    """An engine may join many small centers for sums; these are none."""
    cohort = simulated(600, 2, seed=14, unit=10.0)
    center = np.arange(600) % 100
    frame = pd.DataFrame(cohort.covariates, columns=["a", "b"]).assign(
        time=cohort.time, event=cohort.event, center=center
    )
    found = fit_cox(InProcess.from_cohorts(split(cohort, center, 100)), ties=ties)
    other = PHReg(
        frame["time"], frame[["a", "b"]], status=frame["event"], ties=ties, strata=center
    ).fit(disp=0)
    np.testing.assert_allclose(found.coefficients, other.params, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, other.bse, rtol=1e-7)


@pytest.mark.parametrize("loss", ["stratified", "webdisco"])
def test_the_ridge_is_on_the_covariates_as_given(loss: Any) -> None:
    cohort = simulated(120, 3, seed=15, unit=8.0)
    stretched = Cohort(cohort.covariates * [0.1, 1.0, 20.0], cohort.time, cohort.event)
    model = CoxPHSurvivalAnalysis(alpha=3.0, ties="breslow", tol=1e-15, n_iter=500)
    model.fit(stretched.covariates, Surv.from_arrays(stretched.event, stretched.time))
    federation = experiment(stretched, (np.zeros(120, dtype=np.int64), 1))
    found = fit_cox(federation, ties="breslow", ridge=3.0, loss=loss)
    np.testing.assert_allclose(found.coefficients, model.coef_, atol=1e-8)
    one_each = fit_cox(federation, ties="breslow", ridge=np.full(3, 3.0), loss=loss)
    np.testing.assert_array_equal(one_each.coefficients, found.coefficients)


@pytest.mark.parametrize("outlier", [100.0, 500.0, 1e4])
def test_an_outlier_with_the_first_event_says_nothing_about_the_others(outlier: float) -> None:
    """It has the event with certainty, and is gone before the others are compared."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    time, event = rng.exponential(np.exp(-x)), rng.random(300) < 0.7
    first = time.argmin()
    others = np.arange(300) != first
    expected = pooled(Cohort(x[others, None], time[others], event[others]))
    x[first], event[first] = outlier, True
    found = pooled(Cohort(x[:, None], time, event))
    assert found.converged
    assert not found.separated.any()
    assert found.coefficients[0] == pytest.approx(expected.coefficients[0], rel=1e-8)
    assert found.standard_errors[0] == pytest.approx(expected.standard_errors[0], rel=1e-7)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-8)
    # coxph of R's survival 3.5-3, with the outlier at 500; others stop short of it.
    assert found.coefficients[0] == pytest.approx(1.018708617752, abs=1e-9)
    assert found.standard_errors[0] == pytest.approx(0.089673629573, abs=1e-9)
    assert found.log_likelihood == pytest.approx(-968.858173361362, abs=1e-8)


def test_rescaling_a_covariate_rescales_its_coefficient_and_nothing_else() -> None:
    cohort = simulated(150, 3, seed=16)
    size = np.array([1e-5, 1.0, 1e6])
    other = pooled(Cohort(cohort.covariates * size + 7.0, cohort.time, cohort.event))
    found = pooled(cohort)
    np.testing.assert_allclose(other.coefficients * size, found.coefficients, rtol=1e-7)
    np.testing.assert_allclose(other.standard_errors * size, found.standard_errors, rtol=1e-7)
    assert other.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-9)


def test_a_missing_value_counts_as_the_joint_mean() -> None:
    cohort = simulated(120, 2, seed=17)
    holes = cohort.covariates.copy()
    holes[::5, 1] = np.nan
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    found = pooled(Cohort(holes, cohort.time, cohort.event))
    other = pooled(Cohort(filled, cohort.time, cohort.event))
    np.testing.assert_allclose(found.coefficients, other.coefficients, atol=1e-10)


@pytest.mark.parametrize("loss", ["stratified", "webdisco"])
def test_columns_without_information_have_no_coefficient(loss: Any) -> None:
    cohort = simulated(120, 2, seed=18)
    a, b = cohort.covariates.T
    center = np.arange(120) % 3
    more = np.column_stack([a, np.full(120, 4.0), b, a - 2 * b])
    federation = experiment(Cohort(more, cohort.time, cohort.event), (center, 3))
    plain = experiment(cohort, (center, 3))
    found = fit_cox(federation, ties="breslow", loss=loss)
    expected = fit_cox(plain, ties="breslow", loss=loss)
    assert found.aliased.tolist() == [False, True, False, True]
    assert found.coefficients[found.aliased].tolist() == [0.0, 0.0]
    assert np.isnan(found.standard_errors[found.aliased]).all()
    np.testing.assert_allclose(
        found.coefficients[~found.aliased], expected.coefficients, atol=1e-9
    )
    np.testing.assert_allclose(
        found.standard_errors[~found.aliased], expected.standard_errors, rtol=1e-8
    )


def test_a_column_that_differs_between_centers_only_tells_a_stratified_model_nothing() -> None:
    cohort = simulated(120, 2, seed=18)
    center = np.arange(120) % 3
    a, b = cohort.covariates.T
    # Inside a center, the last one says what the first one says.
    more = np.column_stack([a, center * 2.5, b, 10.0 * center**2 + a])
    found = fit_cox(experiment(Cohort(more, cohort.time, cohort.event), (center, 3)))
    expected = fit_cox(experiment(cohort, (center, 3)))
    assert found.aliased.tolist() == [False, True, False, True]
    assert not found.separated.any()
    np.testing.assert_allclose(
        found.coefficients[~found.aliased], expected.coefficients, atol=1e-9
    )
    assert not pooled(Cohort(more, cohort.time, cohort.event)).aliased.any()


def test_a_column_that_varies_among_nobody_at_risk_has_no_coefficient() -> None:
    """It differs for a patient who is censored before the first event."""
    cohort = simulated(60, 1, seed=19)
    early = np.zeros(61)
    early[-1] = 1.0
    found = pooled(
        Cohort(
            np.column_stack([np.append(cohort.covariates, 0.0), early]),
            np.append(cohort.time + 1.0, 0.5),
            np.append(cohort.event, False),
        )
    )
    assert found.aliased.tolist() == [False, True]
    assert found.coefficients[0] == pytest.approx(pooled(cohort).coefficients[0], abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["stratified", "webdisco"])
def test_a_group_without_events_is_told_as_separated(solver: str, loss: Any) -> None:
    cohort = simulated(200, 2, seed=20)
    spared = np.zeros(200)
    spared[np.flatnonzero(~cohort.event)[:40]] = 1.0
    more = Cohort(np.column_stack([cohort.covariates, spared]), cohort.time, cohort.event)
    federation = experiment(more, (np.zeros(200, dtype=np.int64), 1))
    found = fit_cox(federation, ties="breslow", loss=loss, solver=SOLVERS[solver])
    assert found.separated.tolist() == [False, False, True]
    assert np.isfinite(found.coefficients).all()
    assert found.coefficients[2] < -5
    penalised = fit_cox(
        federation, ties="breslow", loss=loss, ridge=0.1, solver=SOLVERS[solver]
    )
    assert penalised.converged
    assert not penalised.separated.any()


def test_without_any_usable_column_the_likelihood_is_that_of_no_effects() -> None:
    cohort = simulated(50, 1, seed=22)
    found = pooled(Cohort(np.ones((50, 2)), cohort.time, cohort.event))
    frame = pd.DataFrame({"a": cohort.covariates[:, 0]}).assign(
        time=cohort.time, event=cohort.event
    )
    assert found.aliased.all()
    assert found.converged
    assert found.log_likelihood == pytest.approx(lifelines_fit(frame)._ll_null_, abs=1e-9)


def test_a_center_refuses_webdisco_outside_experiments() -> None:
    federation = InProcess.from_cohorts(split(tied_patients(), np.arange(80) % 2, 2))
    with pytest.raises(RefusedError, match=r"center 00.*events at every event time") as refusal:
        fit_cox(federation, ties="breslow", loss="webdisco")
    assert "allow_experiments" in str(refusal.value)


def test_every_wrong_choice_is_named_at_once() -> None:
    federation = experiment(tied_patients(), (np.zeros(80, dtype=np.int64), 1))
    choices: Any = {"ties": "exact", "loss": "pooled", "ridge": -1.0}
    with pytest.raises(InputError) as error:
        fit_cox(federation, **choices)
    assert len(error.value.faults) == 3
    with pytest.raises(InputError, match="ties='breslow'"):
        fit_cox(federation, loss="webdisco")


@pytest.mark.parametrize("loss", ["stratified", "webdisco"])
def test_patients_that_cannot_be_compared_are_refused_in_words(loss: Any) -> None:
    cohort = simulated(20, 2, seed=1)
    choices: Any = {"ties": "breslow", "loss": loss}
    nobody = Cohort(cohort.covariates, cohort.time, np.zeros(20, dtype=np.bool_))
    everyone_in_one = (np.zeros(20, dtype=np.int64), 1)
    with pytest.raises(CohortError, match="No center has an event"):
        fit_cox(experiment(nobody, everyone_in_one), **choices)
    one = Cohort(cohort.covariates[:1], cohort.time[:1], np.ones(1, dtype=np.bool_))
    with pytest.raises(CohortError, match="1 patient"):
        fit_cox(experiment(one, (np.zeros(1, dtype=np.int64), 1)), **choices)
    huge = Cohort(cohort.covariates * [1.0, 1e300], cohort.time, cohort.event)
    with pytest.raises(CohortError, match="Column 'dose'"):
        fit_cox(experiment(huge, everyone_in_one), columns=["age", "dose"], **choices)


def test_strata_of_single_patients_have_nothing_to_compare() -> None:
    cohort = simulated(20, 2, seed=1)
    with pytest.raises(CohortError, match="nothing to compare"):
        fit_cox(experiment(cohort, (np.arange(20), 20)))


def test_rounds_and_bytes_are_those_of_the_messages() -> None:
    federation = experiment(tied_patients(), (np.arange(80) % 4, 4))
    found = fit_cox(federation)
    rows = federation.ledger.since((0, 0))
    assert found.rounds == federation.ledger.rounds == max(row.round for row in rows)
    assert found.bytes_up == sum(row.bytes_up for row in rows)
    assert found.bytes_down == sum(row.bytes_down for row in rows)
    assert found.rounds <= 8
    again = fit_cox(federation)
    assert (again.rounds, again.bytes_up) == (found.rounds, found.bytes_up)
