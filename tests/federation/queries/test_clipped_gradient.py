from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

from fedcox.errors import InputError
from fedcox.federation.queries.clipped_gradient import ClippedGradientAt
from fedcox.federation.queries.clipped_moments import ClippedMomentsOf
from fedcox.federation.query import AbstractPrivateQuery
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import SeededRandomnessForSimulations, noised
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.problems import simulated, split

COHORT = simulated(160, 3, seed=4)
GRID = TimeGrid.regular(25.0, 200.0)
SCALING = Scaling(np.array([0, 2]), np.array([0.1, -0.2]), np.array([2.0, 0.5]))


def setting() -> Setting:
    active = np.ones(GRID.intervals, dtype=np.bool_)
    return Setting(GRID, active, "include", LINKS["cloglog"], SCALING)


def gradient(release: GaussianRelease) -> ClippedGradientAt:
    rng = np.random.default_rng(3)
    alpha, beta = rng.normal(-2.0, 1.0, GRID.intervals), rng.normal(0.0, 0.5, 2)
    return ClippedGradientAt(setting(), alpha, beta, 0.4, 0.7, release)


def moments(release: GaussianRelease) -> ClippedMomentsOf:
    return ClippedMomentsOf(SCALING, release)


QUERIES: dict[str, Callable[[GaussianRelease], AbstractPrivateQuery[Any]]] = {
    "gradient": gradient,
    "moments": moments,
}


def packed(query: AbstractPrivateQuery[Any], cohort: Cohort) -> FloatArray:
    return query.pack(query.answer(cohort))


@pytest.mark.parametrize("name", QUERIES)
def test_any_split_over_centers_gives_the_pooled_sum_to_the_last_bit(name: str) -> None:
    query = QUERIES[name](GaussianRelease(5.0, 1.0))
    center = np.random.default_rng(1).integers(0, 4, COHORT.patients)
    center[0] = 5  # one of the six centers has one patient, one has none
    parts = [query.answer(part) for part in split(COHORT, center, 6).values()]
    total = query.pack(reduce(query.combine, parts))
    assert total.tolist() == packed(query, COHORT).tolist()


@pytest.mark.parametrize("name", QUERIES)
def test_the_reply_lies_on_the_grid_of_its_noise(name: str) -> None:
    release = GaussianRelease(5.0, 1.0)
    query = QUERIES[name](release)
    summed = packed(query, COHORT)
    assert query.bits == release.bits
    noised(summed, release, SeededRandomnessForSimulations(0), masked=False)
    with pytest.raises(InputError, match="grid"):
        noised(summed / 3.0, release, SeededRandomnessForSimulations(0), masked=False)


@pytest.mark.parametrize("name", QUERIES)
def test_the_reply_of_everybody_is_the_answer(name: str) -> None:
    query = QUERIES[name](GaussianRelease(5.0, 1.0))
    private = query.private_answer(COHORT, SeededRandomnessForSimulations(0))
    assert query.pack(private).tolist() == packed(query, COHORT).tolist()


@pytest.mark.parametrize("name", QUERIES)
def test_sampled_replies_are_the_answer_times_the_rate_on_average(name: str) -> None:
    query = QUERIES[name](GaussianRelease(5.0, 1.0, sampling_rate=0.25))
    randomness = SeededRandomnessForSimulations(1)
    drawn = np.array([query.pack(query.private_answer(COHORT, randomness)) for _ in range(400)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - 0.25 * packed(query, COHORT)) < 4 * error + 1e-9).all()


@pytest.mark.parametrize("name", QUERIES)
def test_a_vector_is_the_reply_it_was_packed_from(name: str) -> None:
    query = QUERIES[name](GaussianRelease(5.0, 1.0))
    vector = packed(query, COHORT)
    assert query.pack(query.unpack(vector)).tolist() == vector.tolist()
    assert query.numbers_in(query.unpack(vector)) == vector.size


def test_equal_questions_have_equal_digests_and_other_noise_is_another_question() -> None:
    one, same = gradient(GaussianRelease(5.0, 1.0)), gradient(GaussianRelease(5.0, 1.0))
    less = gradient(GaussianRelease(4.0, 1.0))
    assert one.digest == same.digest != less.digest


def test_the_name_tells_whether_patients_are_sampled() -> None:
    names = [gradient(GaussianRelease(5.0, 1.0, rate)).name for rate in (1.0, 0.1)]
    assert names == ["clipped gradient", "clipped gradient of a sample"]
