"""Rare levels, and what the covariate scatter says about those who have them."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.privacy.levels import smallest_level
from fedcox.survival.cohort import Cohort, FloatArray


def cohort(covariates: FloatArray) -> Cohort:
    patients = len(covariates)
    return Cohort(covariates, np.ones(patients), np.ones(patients, dtype=np.bool_))


@pytest.fixture
def rare() -> Cohort:
    """Fifty patients, of whom one has the level in the last column."""
    covariates = np.random.default_rng(1).normal(size=(50, 4))
    covariates[:, 3] = 0
    covariates[17, 3] = 1
    return cohort(covariates)


def test_a_rare_level_gives_its_patient_away(rare: Cohort) -> None:
    mean = rare.covariates.mean(axis=0)
    scatter = CovariateScatter(mean).answer(rare)
    np.testing.assert_allclose(scatter[3, :3] + mean[:3], rare.covariates[17, :3], atol=1e-13)
    assert smallest_level(rare) == 1


def test_those_without_a_level_count_as_those_with_it(rare: Cohort) -> None:
    turned = rare.covariates.copy()
    turned[:, 3] = 1 - turned[:, 3]
    assert smallest_level(cohort(turned)) == 1


def test_over_all_centers_the_level_may_be_common(rare: Cohort) -> None:
    mean = np.array([0, 0, 0, 0.25])
    assert smallest_level(rare, mean=mean, patients=1000) == 250


def test_a_claim_that_this_center_disproves_counts_nothing(rare: Cohort) -> None:
    assert smallest_level(rare, mean=np.zeros(4), patients=1000) == 0


def test_a_level_that_nobody_here_has_is_not_this_centers_to_protect() -> None:
    here = cohort(np.zeros((30, 1)))
    assert smallest_level(here, mean=np.array([0.001]), patients=1000) == 999


def test_missing_values_have_no_level_and_numbers_are_none(rare: Cohort) -> None:
    covariates = rare.covariates.copy()
    covariates[:10, 3] = np.nan
    assert smallest_level(cohort(covariates)) == 1
    assert smallest_level(cohort(covariates[:, :3])) is None


def test_of_some_columns(rare: Cohort) -> None:
    assert smallest_level(rare, columns=np.array([0, 2])) is None
    last = np.array([3])
    assert smallest_level(rare, columns=last, mean=np.array([0.1]), patients=200) == 20


def test_of_some_rows(rare: Cohort) -> None:
    assert smallest_level(rare, rows=np.arange(20)) == 1
    assert smallest_level(rare, rows=np.arange(10)) == 10
