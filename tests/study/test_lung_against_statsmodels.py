"""Lifelines' lung data over its institutions, against a binomial GLM on the stack."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter
from lifelines.datasets import load_lung
from scipy.stats import chi2

from fedcox.cli.main import main
from fedcox.engines.in_process import InProcess
from fedcox.errors import NotConvergedWarning
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort
from fedcox.survival.person_periods import stack
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.problems import READINGS
from tests.stacked_glm import (
    GLM_LINKS,
    Reference,
    Rows,
    binomial_glm,
    by_width,
    null_log_likelihood,
)

# Lung has intervals without an event after day 900.
pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.EmptyIntervalsWarning")

COVARIATES = ("age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss")
WIDTH = 30.0
#: How far coefficients may be from the GLM's, in its standard errors; standard errors likewise.
SOLVERS: dict[str, tuple[dict[str, Any], float]] = {
    "newton": ({"method": "newton"}, 1e-8),
    "lbfgs by the diagonal": ({"method": "lbfgs", "scaling": "diagonal"}, 1e-6),
    "lbfgs by the block": ({"method": "lbfgs", "scaling": "block"}, 1e-6),
}


@cache
def lung() -> pd.DataFrame:
    frame: pd.DataFrame = load_lung()
    return frame.dropna().reset_index(drop=True)


def covariates() -> Any:
    return lung()[list(COVARIATES)].to_numpy(np.float64)


@cache
def rows(reading: str) -> Rows:
    frame = lung()
    return by_width(frame["time"].tolist(), frame["status"].eq(1).tolist(), WIDTH, reading)


@cache
def reference(link: str, reading: str) -> Reference:
    return binomial_glm(rows(reading), covariates(), link)


@cache
def fitted(link: str, reading: str, solver: str = "newton") -> FittedStudy:
    study = study_of(link, reading, SOLVERS[solver][0])
    return fit(study, InProcess.from_frame(study, lung(), center="inst"))


def study_of(link: str, reading: str, solver: dict[str, Any]) -> Study:
    return Study(
        outcome={"time": "time", "event": "status"},
        covariates=list(COVARIATES),
        grid={"width": WIDTH},
        model={"link": link, "censored_interval": reading},
        solver=solver,
    )


@pytest.mark.parametrize("reading", READINGS)
def test_the_stack_is_the_one_written_out_by_hand(reading: CensoredInterval) -> None:
    frame = lung()
    cohort = Cohort(covariates(), frame["time"].to_numpy(), frame["status"].to_numpy() == 1)
    grid = TimeGrid.regular(WIDTH, float(frame["time"].max()))
    ours, by_hand = stack(cohort, grid, reading), rows(reading)
    assert grid.intervals == by_hand.intervals == 35
    np.testing.assert_array_equal(ours.patient, by_hand.patient)
    np.testing.assert_array_equal(ours.interval, by_hand.interval)
    np.testing.assert_array_equal(ours.event, by_hand.event)
    np.testing.assert_array_equal(ours.weight, by_hand.weight)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", GLM_LINKS)
def test_coefficients_and_standard_errors_are_those_of_the_glm(
    link: str, reading: str, solver: str
) -> None:
    ours, theirs = fitted(link, reading, solver), reference(link, reading)
    tolerance = SOLVERS[solver][1]
    summary = ours.summary
    assert ours.converged
    off = np.abs(summary["coef"].to_numpy() - theirs.coef) / theirs.se
    assert off.max() < tolerance
    np.testing.assert_allclose(summary["coef"], theirs.coef, rtol=0, atol=0.1 * tolerance)
    np.testing.assert_allclose(summary["se(coef)"], theirs.se, rtol=tolerance)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=1e-10)
    alpha = np.array([row.alpha for row in ours.baseline if row.alpha is not None])
    np.testing.assert_allclose(alpha, theirs.alpha, atol=max(tolerance, 1e-8) * 100)


@pytest.mark.parametrize(("link", "reading"), [("logit", "include"), ("cloglog", "half")])
def test_full_batch_adam_ends_at_the_glm_too(link: str, reading: str) -> None:
    study = study_of(link, reading, {"method": "adam", "learning_rate": 0.03, "steps": 900})
    ours = fit(study, InProcess.from_frame(study, lung(), center="inst"))
    theirs = reference(link, reading)
    assert ours.converged
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-6)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=1e-8)


def test_adam_on_batches_ends_near_the_glm_and_says_that_it_is_not_there() -> None:
    settings = {"method": "adam", "learning_rate": 0.02, "steps": 400, "batch_size": 60}
    study = study_of("logit", "include", settings)
    with pytest.warns(NotConvergedWarning, match="400 steps"):
        ours = fit(study, InProcess.from_frame(study, lung(), center="inst"))
    theirs = reference("logit", "include")
    off = (ours.summary["coef"].to_numpy() - theirs.coef) / theirs.se
    assert not ours.converged
    assert np.abs(off).max() < 1.0  # the batches' noise, below that of the data


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", GLM_LINKS)
def test_tests_and_intervals_follow_from_the_glm(link: str, reading: str) -> None:
    ours, theirs = fitted(link, reading), reference(link, reading)
    summary = ours.summary
    expected = {
        "coef": theirs.coef,
        "exp(coef)": np.exp(theirs.coef),
        "se(coef)": theirs.se,
        "coef lower 95%": theirs.low,
        "coef upper 95%": theirs.high,
        "exp(coef) lower 95%": np.exp(theirs.low),
        "exp(coef) upper 95%": np.exp(theirs.high),
        "z": theirs.z,
        "p": theirs.p,
        "-log2(p)": -np.log2(theirs.p),
    }
    for column, values in expected.items():
        np.testing.assert_allclose(
            summary[column], values, rtol=1e-8, atol=1e-11, err_msg=column
        )
    assert not summary["cmp to"].any()
    for row, low, high in zip(
        ours.coefficients, np.exp(theirs.low), np.exp(theirs.high), strict=True
    ):
        assert (row.ratio_low, row.ratio_high) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("link", GLM_LINKS)
def test_the_likelihood_ratio_test_compares_with_intercepts_alone(link: str) -> None:
    ours, theirs = fitted(link, "include"), reference(link, "include")
    null = null_log_likelihood(rows("include"), link)
    assert ours.null_log_likelihood == pytest.approx(null, abs=1e-10)
    statistic = 2 * (theirs.log_likelihood - null)
    assert ours.likelihood_ratio is not None
    assert ours.likelihood_ratio["statistic"] == pytest.approx(statistic, rel=1e-11)
    assert ours.likelihood_ratio["df"] == len(COVARIATES)
    p = float(chi2.sf(statistic, len(COVARIATES)))
    assert ours.likelihood_ratio["p"] == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("reading", READINGS)
def test_the_life_table_counts_the_rows_of_the_stack(reading: str) -> None:
    ours, by_hand = fitted("cloglog", reading), rows(reading)
    # Whoever counts one half in an interval reaches it.
    reached = rows("include" if reading == "half" else reading).at_risk_per_interval
    np.testing.assert_array_equal([row.at_risk for row in ours.baseline], reached)
    np.testing.assert_array_equal(
        [row.events for row in ours.baseline], by_hand.events_per_interval
    )
    known = [m for m, row in enumerate(ours.baseline) if row.alpha is not None]
    np.testing.assert_array_equal(known, reference("cloglog", reading).informative)
    assert [row.interval_end for row in ours.baseline][:2] == [30.0, 60.0]
    assert ours.edges[-1] == lung()["time"].max()


def test_centers_are_the_institutions_with_their_patients_and_events() -> None:
    counted = lung().groupby("inst")["status"].agg(["size", "sum"])
    found = {row.name: (row.patients, row.events) for row in fitted("logit", "include").centers}
    expected = {f"{inst:g}": (int(n), int(d)) for inst, n, d in counted.itertuples()}
    assert found == expected


def test_summary_has_lifelines_columns_in_lifelines_order() -> None:
    theirs = CoxPHFitter().fit(lung().drop(columns="inst"), "time", "status").summary
    ours = fitted("cloglog", "include").summary
    assert list(ours.columns) == list(theirs.columns)
    assert ours.index.name == theirs.index.name == "covariate"
    assert list(ours.index) == list(COVARIATES)


def test_the_concordance_is_lifelines_on_true_times() -> None:
    from lifelines.utils import concordance_index

    ours = fitted("cloglog", "include")
    risk = covariates() @ ours.summary["coef"].to_numpy()
    theirs = concordance_index(lung()["time"], -risk, lung()["status"])
    assert ours.concordance == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("link", "reading"), [("logit", "exclude"), ("cloglog", "include")])
def test_the_command_writes_the_numbers_of_the_glm(
    link: str,
    reading: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study, data, run = tmp_path / "study.toml", tmp_path / "lung.csv", tmp_path / "run"
    study.write_text(study_of(link, reading, {"method": "newton"}).to_toml(), encoding="utf-8")
    lung().to_csv(data, index=False)
    words = [str(study), "--data", str(data), "--center-column", "inst", "--out", str(run)]
    monkeypatch.setattr(sys, "argv", ["fedcox", "fit", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    theirs = reference(link, reading)
    record = json.loads((run / "fit.json").read_text(encoding="utf-8"))
    coef = [row["coef"] for row in record["coefficients"]]
    # A file holds what standard errors leave, in memory there is more.
    np.testing.assert_allclose((coef - theirs.coef) / theirs.se, 0, atol=5e-4)
    se = [row["se"] for row in record["coefficients"]]
    np.testing.assert_allclose(se, theirs.se, rtol=5e-4)
    summary = pd.read_csv(run / "summary.csv", index_col="covariate")
    np.testing.assert_array_equal(summary["coef"], coef)
    np.testing.assert_allclose(summary["p"], theirs.p, rtol=5e-3)
    assert len(record["centers"]) == lung()["inst"].nunique()
    capsys.readouterr()
