from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg

from benchmarks.contenders.stacked_sklearn import stack
from benchmarks.patients import Patients, simulate
from benchmarks.reference import Optimum, optimum


@pytest.fixture(scope="module")
def patients() -> Patients:
    return simulate(400, 3, np.random.default_rng(5))


def test_the_cox_reference_is_statsmodels_optimum(patients: Patients) -> None:
    found = optimum(patients, "cox", None)
    other = PHReg(patients.time, patients.covariates, status=patients.event).fit()
    assert found.coefficients == pytest.approx(other.params, abs=1e-8)
    assert found.standard_errors == pytest.approx(other.bse, abs=1e-8)


def test_tied_times_follow_breslow(patients: Patients) -> None:
    days = np.ceil(patients.time / 30)
    tied = Patients(patients.covariates, days, patients.event, patients.log_risk)
    other = PHReg(days, patients.covariates, status=patients.event, ties="breslow").fit()
    assert optimum(tied, "cox", None).coefficients == pytest.approx(other.params, abs=1e-8)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_the_discrete_reference_is_a_binomial_glm_on_the_stack(
    patients: Patients, link: Literal["logit", "cloglog"]
) -> None:
    design, happened = stack(patients, intervals=6, width=150.0)
    family = sm.families.Binomial(
        sm.families.links.Logit() if link == "logit" else sm.families.links.CLogLog()
    )
    other = sm.GLM(happened.astype(float), design, family=family).fit(tol=1e-14)
    found = optimum(patients, link, 150.0)
    assert found.coefficients == pytest.approx(other.params[6:], abs=1e-8)
    assert found.standard_errors == pytest.approx(other.bse[6:], abs=1e-7)


def test_intervals_without_an_event_change_nothing(patients: Patients) -> None:
    kept = patients.time <= 150
    early = patients.first(400)
    late = Patients(
        np.vstack([early.covariates[kept], np.zeros((1, 3))]),
        np.append(early.time[kept], 900.0),  # one patient, censored long after all others
        np.append(early.event[kept], False),
        np.append(early.log_risk[kept], 0.0),
    )
    assert np.isfinite(optimum(late, "logit", 50.0).coefficients).all()


def test_an_optimum_survives_the_disk(
    patients: Patients, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = optimum(patients, "cox", None)
    file = tmp_path_factory.mktemp("reference") / "cox.npz"
    found.save(file)
    assert Optimum.read(file).coefficients.tolist() == found.coefficients.tolist()
