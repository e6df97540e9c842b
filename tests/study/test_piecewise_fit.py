"""The piecewise-exponential model against a Poisson GLM that another library fits.

The GLM sees the split rows: one for each patient and piece, with the logarithm of the time at
risk as offset. They are built here from the fit's own edges and from nothing else of fedcox.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines.datasets import load_gbsg2, load_lung, load_rossi

import fedcox
from benchmarks.data_sets import DATA_SETS, NotHereError
from fedcox.federation.center import Center
from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import Cohort, FloatArray


def lung() -> tuple[pd.DataFrame, dict[str, Any], list[str]]:
    columns = ["age", "sex", "ph.ecog"]
    table = load_lung()[["time", "status", *columns]].dropna()
    return table, {"time": "time", "event": "status"}, columns


def rossi() -> tuple[pd.DataFrame, dict[str, Any], list[str]]:
    columns = ["fin", "age", "race", "wexp", "mar", "paro", "prio"]
    return load_rossi(), {"time": "week", "event": "arrest"}, columns


def gbsg2() -> tuple[pd.DataFrame, dict[str, Any], list[str]]:
    columns = ["horTh", "age", "tsize", "pnodes", "progrec", "estrec"]
    table = load_gbsg2().assign(horTh=lambda frame: (frame["horTh"] == "yes").astype(float))
    return table, {"time": "time", "event": "cens"}, columns


def rott2() -> tuple[pd.DataFrame, dict[str, Any], list[str]]:
    """Times in months with fractions, which are days in another unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # SurvSet 0.2 and numpy's core
        try:
            patients = DATA_SETS["rott2"].load()
        except NotHereError as reason:
            pytest.skip(f"rott2: {reason}")
    names = {name: f"x{place}" for place, name in enumerate(patients.covariates)}
    table = patients.frame.rename(columns=names)
    return table, {"time": "time", "event": "event"}, list(names.values())


DATA: Mapping[str, Callable[[], tuple[pd.DataFrame, dict[str, Any], list[str]]]] = {
    "lung": lung,
    "rossi": rossi,
    "gbsg2": gbsg2,
    "rott2": rott2,
}


def fitted_pieces(fitted: FittedStudy) -> list[tuple[float, float]]:
    """Where each piece begins and ends; those without an event are not fitted."""
    bounds = np.append(0.0, fitted.edges).tolist()
    return [
        (low, high)
        for low, high, row in zip(bounds, bounds[1:], fitted.baseline, strict=False)
        if row.alpha is not None
    ]


def fit(plan: fedcox.Study, patients: Any, center: str | None = None) -> FittedStudy:
    """Without a word of events after the horizon, or of pieces that were joined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fedcox.fit(plan, fedcox.InProcess.from_frame(plan, patients, center))


def split_rows(
    fitted: FittedStudy, time: FloatArray, event: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Design with an indicator per piece, events, and time at risk, row by row."""
    pieces, unit = fitted_pieces(fitted), fitted.resolution
    # An event is at the middle of its unit; who is censored there was at risk to its end.
    at = (
        time
        if unit is None
        else np.where(event, (np.ceil(time / unit - 1e-9) - 0.5) * unit, time)
    )
    low, high = np.array(pieces).T
    lived = np.minimum(at[:, None], high) - low  # (patients, pieces)
    i, k = np.nonzero(lived > 0)
    happened = (event[i] > 0) & (low[k] < at[i]) & (at[i] <= high[k])
    design = np.column_stack([k[:, None] == np.arange(len(pieces)), x[i]]).astype(np.float64)
    return design, happened.astype(np.float64), lived[i, k]


def study(outcome: dict[str, Any], columns: list[str], **tables: Any) -> fedcox.Study:
    return fedcox.Study(outcome={**outcome, "unit": "days"}, covariates=columns, **tables)


@pytest.mark.parametrize(
    "solver", [{"method": "newton"}, {"method": "lbfgs", "tolerance": 1e-17}], ids=str
)
@pytest.mark.parametrize(
    "grid", [{"pieces": 8}, {"edges": [100.0, 300.0, 3000.0]}, {"width": 90}], ids=str
)
@pytest.mark.parametrize("name", DATA)
def test_the_fit_is_the_poisson_glm_on_the_split_rows(
    name: str, grid: dict[str, Any], solver: dict[str, Any]
) -> None:
    table, outcome, columns = DATA[name]()
    plan = study(outcome, columns, grid=grid, solver=solver)
    fitted = fit(plan, table)
    time, event = (table[outcome[key]].to_numpy(dtype=float) for key in ("time", "event"))
    x = table[columns].to_numpy(dtype=float)
    design, happened, exposure = split_rows(fitted, time, event, x - x.mean(axis=0))
    glm = sm.GLM(happened, design, family=sm.families.Poisson(), offset=np.log(exposure)).fit(
        tol=1e-14, maxiter=100
    )
    pieces = len(fitted_pieces(fitted))
    coef, se = glm.params[pieces:], glm.bse[pieces:]
    assert (np.abs(fitted.summary["coef"] - coef) < 1e-8 * se).all()
    np.testing.assert_allclose(fitted.summary["se(coef)"], se, rtol=1e-8)
    assert fitted.covariance is not None
    np.testing.assert_allclose(
        fitted.covariance,
        glm.cov_params()[pieces:, pieces:],
        rtol=1e-7,
        atol=1e-8 * se.min() ** 2,
    )
    at_mean = np.array(
        [row.alpha for row in fitted.baseline if row.alpha is not None]
    ) + coef @ x.mean(axis=0)
    np.testing.assert_allclose(at_mean, glm.params[:pieces], rtol=0, atol=1e-7)
    # statsmodels' likelihood counts a Poisson variable a row: log of the expected number.
    assert fitted.log_likelihood == pytest.approx(
        glm.llf - float(happened @ np.log(exposure)), abs=1e-6
    )


def test_bands_come_from_the_joint_covariance_of_baseline_and_coefficients() -> None:
    table, outcome, columns = lung()
    plan = study(outcome, columns, grid={"pieces": 8})
    fitted = fit(plan, table)
    time, event = (table[outcome[key]].to_numpy(dtype=float) for key in ("time", "event"))
    x = table[columns].to_numpy(dtype=float)
    design, happened, exposure = split_rows(fitted, time, event, x)
    glm = sm.GLM(happened, design, family=sm.families.Poisson(), offset=np.log(exposure)).fit(
        tol=1e-14, maxiter=100
    )
    times = np.array([60.0, 200.0, 333.3, 600.0])
    patients = np.array([[45.0, 2.0, 0.0], [80.0, 1.0, 3.0]])
    survival, band = fitted.survival(patients, times), fitted.survival_band(patients, times)
    assert band is not None
    low, high = np.array(fitted_pieces(fitted)).T
    rates = np.exp(glm.params[:8])
    for i, patient in enumerate(patients):
        for j, until in enumerate(times):
            lived = np.clip(until - low, 0.0, high - low)
            hazard = rates * lived * np.exp(patient @ glm.params[8:])
            slope = np.append(hazard, hazard.sum() * patient) / hazard.sum()
            error = np.sqrt(slope @ glm.cov_params() @ slope)  # of log Λ
            expected = [np.exp(-hazard.sum() * np.exp(z * error)) for z in (1.96, 0.0, -1.96)]
            assert survival[i, j] == pytest.approx(expected[1], rel=1e-7)
            # Kept to a few digits, and between the points where it is kept along Λ.
            assert band[0][i, j] == pytest.approx(expected[0], abs=2e-3)
            assert band[1][i, j] == pytest.approx(expected[2], abs=2e-3)


def test_with_a_piece_for_every_time_untied_data_give_coxs_breslow_curve() -> None:
    from lifelines import CoxPHFitter

    table, outcome, columns = lung()
    rng = np.random.default_rng(5)
    table = table.assign(time=table["time"] + rng.uniform(-0.4, 0.4, len(table)))
    plan = study(outcome, columns, grid={"times": "events"})
    fitted = fit(plan, table)
    cox = CoxPHFitter().fit(table, "time", "status")
    apart = (fitted.summary["coef"] - cox.summary["coef"]) / cox.summary["se(coef)"]
    assert np.abs(apart).max() < 1e-3
    times = [fitted_pieces(fitted)[place][1] for place in (10, 60, 100, 130)]
    ours = fitted.survival(table[columns].mean().to_numpy()[None], times)[0]
    theirs = cox.predict_survival_function(table[columns].mean().to_frame().T, times=times)
    np.testing.assert_allclose(ours, theirs.to_numpy()[:, 0], atol=1e-4)


def test_survival_follows_the_model_between_edges_and_ends_at_the_horizon() -> None:
    table, outcome, columns = lung()
    plan = study(outcome, columns, grid={"edges": [200.0, 500.0]})
    fitted = fit(plan, table)
    patient = table.iloc[:1]
    at = fitted.predict_survival(patient, times=[0.0, 100.0, 200.0, 350.0, 500.0, 501.0])
    first, second = (row.hazard for row in fitted.baseline)
    risk = float(np.exp(fitted.predict_log_risk(patient).iloc[0]))
    hazards = np.array([0.0, 100 * first, 200 * first, 200 * first + 150 * second])
    np.testing.assert_allclose(at.to_numpy()[0, :4], np.exp(-risk * hazards), rtol=1e-12)
    assert np.isnan(at.to_numpy()[0, 5])
    assert not np.isnan(at.to_numpy()[0, 4])
    median = float(fitted.predict_median(patient).iloc[0])
    assert fitted.predict_survival(patient, [median]).to_numpy()[0, 0] == pytest.approx(0.5)
    quarter = float(fitted.predict_median(patient, share=0.75).iloc[0])
    assert fitted.predict_survival(patient, [quarter]).to_numpy()[0, 0] == pytest.approx(0.75)


@pytest.mark.filterwarnings("ignore::fedcox.errors.ExactSumsWarning")
@given(seed=st.integers(0, 2**32 - 1), centers=st.integers(1, 7))
@settings(max_examples=25)
def test_any_split_gives_the_same_pieces_and_the_same_fit(seed: int, centers: int) -> None:
    """Unequal, one-patient and empty centers, plain and under secure sums."""
    table, outcome, columns = lung()
    rng = np.random.default_rng(seed)
    table = table.sample(120, random_state=seed % 1000).reset_index(drop=True)
    shares = rng.dirichlet(np.full(centers, 0.3))
    table["center"] = [f"c{k}" for k in rng.choice(centers, len(table), p=shares)]
    table.loc[0, "center"] = "alone"
    plan = study(outcome, columns)
    pooled = fit(plan, table)
    parts = [*fedcox.InProcess.from_frame(plan, table, center="center").centers, _nobody()]
    split = fedcox.fit(plan, fedcox.InProcess(parts))
    assert split.edges.tolist() == pooled.edges.tolist()
    assert split.resolution == pooled.resolution
    scale = pooled.summary["se(coef)"]
    assert (np.abs(split.summary["coef"] - pooled.summary["coef"]) < 1e-9 * scale).all()
    np.testing.assert_allclose(split.summary["se(coef)"], scale, rtol=1e-9)
    assert split.risk_table == pooled.risk_table
    masked = study(outcome, columns, privacy={"secure_sums": True, "noise": "none"})
    one = fedcox.fit(masked, fedcox.InProcess.from_frame(masked, _three(table, rng)))
    other = fedcox.fit(masked, fedcox.InProcess.from_frame(masked, _three(table, rng)))
    assert one.edges.tolist() == other.edges.tolist()
    apart = np.abs(one.summary["coef"] - other.summary["coef"]) / one.summary["se(coef)"]
    assert apart.max() < 1e-6  # sums under masks have so many digits


def _nobody() -> Center:
    return Center("empty", Cohort(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.bool_)))


def _three(table: pd.DataFrame, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    parts = np.array_split(
        rng.permutation(len(table)), sorted(1 + rng.choice(118, 2, replace=False))
    )
    return {f"hospital {k}": table.iloc[part] for k, part in enumerate(parts)}


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("df", [3, 5])
def test_a_smooth_baseline_is_the_glm_with_a_natural_spline_of_log_time(
    df: int, solver: str
) -> None:
    """patsy's natural spline spans the same space, if it has the same knots."""
    table, outcome, columns = lung()
    chosen = (
        {"method": solver} if solver == "newton" else {"method": solver, "tolerance": 1e-17}
    )
    model = {"baseline": "spline", "df": df}
    plan = study(outcome, columns, model=model, grid={"pieces": 30}, solver=chosen)
    fitted = fit(plan, table)
    time, event = (table[outcome[key]].to_numpy(dtype=float) for key in ("time", "event"))
    x = table[columns].to_numpy(dtype=float)
    design, happened, exposure = split_rows(fitted, time, event, x)
    pieces = fitted_pieces(fitted)
    bounds = np.array([pieces[0][0], *(high for _, high in pieces)])
    events = design[:, : len(pieces)].T @ happened
    shares = np.append(0.0, np.cumsum(events)) / events.sum()
    knots = np.interp(np.linspace(0, 1, df), shares, np.log(bounds))
    middle = np.log(bounds[:-1] + np.diff(bounds) / 2)
    terms = {"x": np.append(middle, knots[[0, -1]])}
    inner = {"knots": knots[1:-1], "lower_bound": knots[0], "upper_bound": knots[-1]}
    spline = patsy.dmatrix(
        "1 + cr(x, knots=k, lower_bound=a, upper_bound=b, constraints='center')",
        {**terms, "k": inner["knots"], "a": inner["lower_bound"], "b": inner["upper_bound"]},
    )
    rows = design[:, : len(pieces)] @ np.asarray(spline)[: len(pieces)]
    glm = sm.GLM(
        happened,
        np.column_stack([rows, design[:, len(pieces) :]]),
        family=sm.families.Poisson(),
        offset=np.log(exposure),
    ).fit(tol=1e-14, maxiter=100)
    se = glm.bse[-3:]
    assert (np.abs(fitted.summary["coef"] - glm.params[-3:]) < 1e-6 * se).all()
    np.testing.assert_allclose(fitted.summary["se(coef)"], se, rtol=1e-6)
    hazard = np.array([row.hazard for row in fitted.baseline if row.alpha is not None])
    theirs = np.exp(np.asarray(spline)[: len(pieces)] @ glm.params[:-3])
    np.testing.assert_allclose(hazard, theirs, rtol=1e-5)
