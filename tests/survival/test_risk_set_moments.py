"""WebDISCO's sums: they give the pooled partial likelihood, and patients with it."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.partial_likelihood import PartialLikelihood
from fedcox.survival.risk_set_moments import (
    EventSums,
    PatientsByTime,
    RiskSetMoments,
    breslow,
    event_sums,
)
from fedcox.survival.scaling import Scaling
from tests.problems import simulated, split, untied

BETA = np.array([0.4, -0.8, 0.3])


def from_sums(parts: list[Cohort], times: FloatArray, detail: Detail) -> Derivatives:
    scaling = Scaling.none(3)
    moments = [PatientsByTime.of(part, scaling, times).moments(BETA, detail) for part in parts]
    sums = [event_sums(part, np.zeros(3), times) for part in parts]
    return breslow(
        reduce(RiskSetMoments.__add__, moments), reduce(EventSums.__add__, sums), BETA, detail
    )


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("unit", [4.0, 100.0])
def test_summed_over_centers_they_give_the_pooled_derivatives(
    detail: Detail, unit: float
) -> None:
    cohort = simulated(120, 3, seed=12, unit=unit)
    center = np.random.default_rng(3).choice(7, 120, p=[0.5, 0.2, 0.2, 0.08, 0.01, 0.01, 0.0])
    times = np.unique(cohort.time[cohort.event])
    pooled = PartialLikelihood.of(cohort, Scaling.none(3), "breslow").derivatives(BETA, detail)
    found = from_sums([*split(cohort, center, 7).values()], times, detail)
    assert found.loss == pytest.approx(pooled.loss, rel=1e-13)
    np.testing.assert_allclose(found.beta, pooled.beta, atol=1e-10)
    assert (found.curvature is None) == (pooled.curvature is None)
    if found.curvature is not None and pooled.curvature is not None:
        np.testing.assert_allclose(found.curvature.beta, pooled.curvature.beta, atol=1e-10)
        assert (found.curvature.cross is None) == (pooled.curvature.cross is None)


def test_two_neighbouring_sums_give_a_patient_away() -> None:
    """Why no center answers this outside experiments."""
    cohort = untied(simulated(40, 3, seed=2))
    everyone = Cohort(cohort.covariates, cohort.time, np.ones(40, dtype=np.bool_))
    order = np.argsort(everyone.time)
    times = everyone.time[order]
    sent = PatientsByTime.of(everyone, Scaling.none(3), times).moments(BETA, Detail.GRADIENT)
    read_off = np.diff(sent.first, axis=0) / np.diff(sent.total)[:, None]
    np.testing.assert_allclose(read_off, everyone.covariates[order][:-1], rtol=1e-9)


def test_a_message_holds_one_moment_for_each_time_column_and_pair() -> None:
    cohort = simulated(30, 3, seed=1)
    patients = PatientsByTime.of(cohort, Scaling.none(3), np.array([1.0, 7.0]))
    assert patients.moments(BETA, Detail.GRADIENT).numbers == 2 * (1 + 3)
    assert patients.moments(BETA, Detail.DIAGONAL).numbers == 2 * (1 + 3 + 3)
    assert patients.moments(BETA, Detail.HESSIAN).numbers == 2 * (1 + 3 + 6)
