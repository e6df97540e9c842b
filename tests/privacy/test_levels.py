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
    assert smallest_level(rare, mean=mean, present=np.full(1, float(1000))) == 250


def test_a_claim_that_this_center_disproves_counts_nothing(rare: Cohort) -> None:
    assert smallest_level(rare, mean=np.zeros(4), present=np.full(1, float(1000))) == 0


def test_a_level_that_nobody_here_has_is_not_this_centers_to_protect() -> None:
    here = cohort(np.zeros((30, 1)))
    assert smallest_level(here, mean=np.array([0.001]), present=np.full(1, float(1000))) == 999


def test_missing_values_have_no_level_and_numbers_are_none(rare: Cohort) -> None:
    covariates = rare.covariates.copy()
    covariates[:10, 3] = np.nan
    assert smallest_level(cohort(covariates)) == 1
    assert smallest_level(cohort(covariates[:, :3])) is None


def test_of_some_columns(rare: Cohort) -> None:
    assert smallest_level(rare, columns=np.array([0, 2])) is None
    last = np.array([3])
    assert (
        smallest_level(rare, columns=last, mean=np.array([0.1]), present=np.full(1, float(200)))
        == 20
    )


def test_of_some_rows(rare: Cohort) -> None:
    assert smallest_level(rare, rows=np.arange(20)) == 1
    assert smallest_level(rare, rows=np.arange(10)) == 10


@pytest.mark.parametrize("values", [(0.0, 7.3), (1.0, 2.0), (-5.0, 3.0)])
@pytest.mark.parametrize("rare", [1, 4])
def test_a_value_that_nearly_everybody_has_is_a_level(
    values: tuple[float, float], rare: int
) -> None:
    column = np.repeat(values, [60 - rare, rare])
    cohort = Cohort(column[:, None], np.ones(60), np.zeros(60, dtype=bool))
    assert smallest_level(cohort) == rare
    claimed = {"mean": column.mean(keepdims=True), "present": np.array([6000.0])}
    assert smallest_level(cohort, **claimed) == rare  # of the others nothing is known


def test_a_column_of_numbers_is_none() -> None:
    cohort = Cohort(np.arange(60.0)[:, None], np.ones(60), np.zeros(60, dtype=bool))
    assert smallest_level(cohort) is None


def test_missing_values_of_others_do_not_count_as_patients_with_the_level() -> None:
    """One of sixty known values is a one: the mean says a sixtieth, not ten of six hundred."""
    column = np.r_[1.0, np.zeros(59)]
    cohort = Cohort(column[:, None], np.ones(60), np.zeros(60, dtype=bool))
    assert smallest_level(cohort, mean=np.array([1 / 60]), present=np.array([60.0])) == 1
