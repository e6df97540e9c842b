"""A patient in a network's noised sums: at most the bound, whoever else is there."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import InputError
from fedcox.federation.queries.clipped_gradient import ClippedNetworkGradientAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Perceptron, TileScorer
from fedcox.models.predictors.network import Network
from fedcox.privacy.noise import (
    GaussianRelease,
    SeededRandomnessForSimulations,
    noise_variance,
    noised,
)
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling
from tests.network_examples import (
    FEATURES,
    GRID,
    KINDS,
    PATIENTS,
    Kind,
    network_setting,
    patients,
    split_up,
    uneven,
)


def question(
    kind: Kind, release: GaussianRelease, seed: int = 1, size: float = 1.0, **choices: object
) -> ClippedNetworkGradientAt:
    choices.setdefault("precision", "float32")
    setting: Setting = network_setting(kind, **choices)  # type: ignore[arg-type]
    alpha = np.random.default_rng(seed).normal(-2.0, 1.0, GRID.intervals)
    return ClippedNetworkGradientAt(setting, alpha, size * setting.start(seed), release)


def packed(query: ClippedNetworkGradientAt, cohort: Cohort) -> FloatArray:
    return query.pack(query.answer(cohort))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 1000),
    bound=st.sampled_from([1e-3, 0.3, 50.0]),
    size=st.sampled_from([1.0, 1e3]),
    link=st.sampled_from(["cloglog", "logit"]),
)
def test_one_patient_more_or_less_moves_a_sum_by_at_most_the_bound(
    kind: Kind, seed: int, bound: float, size: float, link: str
) -> None:
    release = GaussianRelease(2.0, bound)
    query = question(kind, release, seed, size, link=link)
    cohort, without = patients(), int(np.random.default_rng(seed).integers(PATIENTS))
    rest = cohort.take(np.arange(PATIENTS) != without)
    moved = packed(query, cohort) - packed(query, rest)
    assert np.linalg.norm(moved) <= bound  # also after rounding to the grid
    # Nobody else's share moves: what is left is this patient's share alone, to the last bit.
    assert moved.tolist() == packed(query, cohort.take(np.array([without]))).tolist()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_share_of_a_row_does_not_depend_on_how_many_rows_there_are(precision: str) -> None:
    """A matrix product of one row, or of two, rounds otherwise than one of many."""
    rng = np.random.default_rng(3)
    cohort = Cohort(rng.normal(size=(70, 30)), rng.uniform(1, 150, 70), rng.random(70) < 0.5)
    network = Network(Perceptron(30, (64, 32)), precision=precision)  # type: ignore[arg-type]
    setting = replace(network_setting(), scaling=Scaling.none(30), predictor=network)
    alpha = np.full(GRID.intervals, -2.0)
    query = ClippedNetworkGradientAt(
        setting, alpha, setting.start(1), GaussianRelease(1e-3, 5.0)
    )
    single = np.array([packed(query, cohort.take(np.array([row]))) for row in range(70)])
    for rows in (range(70), range(1, 70), range(2), range(3, 10), range(31, 64)):
        chosen = np.array(rows)
        expected = single[chosen].sum(axis=0)
        assert packed(query, cohort.take(chosen)).tolist() == expected.tolist()


def test_noise_whose_rounding_would_eat_the_bound_is_refused() -> None:
    setting = network_setting().with_predictor(Network(TileScorer(256, 128)))
    alpha, beta = np.zeros(GRID.intervals), np.zeros(33_024)
    for multiplier in (3e4, 1e12):
        with pytest.raises(InputError, match=r"(?s)lost in the rounding.*33,030 numbers"):
            ClippedNetworkGradientAt(setting, alpha, beta, GaussianRelease(multiplier, 0.5))
    release = GaussianRelease(9e3, 0.5)
    ClippedNetworkGradientAt(setting, alpha, beta, release)
    # Close to it a share still points along the gradient, and is not longer than the bound.
    plain = question("bags", GaussianRelease(1e-3, 1e6))
    near = question("bags", GaussianRelease(2.5e5, 0.5))
    for row in range(10):
        one = patients().take(np.array([row]))
        share, gradient = packed(near, one), packed(plain, one)
        assert share @ gradient > 0
        assert np.linalg.norm(share) <= 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_any_split_gives_the_pooled_sum_to_the_last_bit(kind: Kind) -> None:
    query = question(kind, GaussianRelease(2.0, 0.5))
    parts = map(query.answer, split_up(patients(), *uneven()).values())
    total = query.pack(reduce(query.combine, parts))
    assert total.any()
    assert total.tolist() == packed(query, patients()).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slide_weight", ["slide", "patient"])
def test_without_clipping_it_is_the_gradient(kind: Kind, slide_weight: str) -> None:
    query = question(
        kind, GaussianRelease(1e-3, 1e3), precision="float64", slide_weight=slide_weight
    )
    found = query.answer(patients())
    at = query.agreed, query.alpha, query.beta
    exact = DerivativesAt(*at, Detail.GRADIENT).answer(patients())
    wanted = np.concatenate([exact.beta, exact.alpha])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_a_patient_with_several_slides_is_one_patient() -> None:
    release = GaussianRelease(2.0, 1e-3)
    query = question("bags", release)
    cohort = patients()
    assert cohort.bags is not None
    many = [row for row, own in enumerate(cohort.bags.slides) if len(own) == 3]
    for row in many:
        share = packed(query, cohort.take(np.array([row])))
        slack = np.sqrt(share.size) / 2.0 * release.resolution
        assert np.linalg.norm(share) <= 1e-3 + slack
    assert len(many) > 5


def test_a_patient_whose_gradient_is_no_number_adds_nothing() -> None:
    from fedcox.survival.bags import Bags, SlideArray

    cohort = patients().take(np.arange(2))
    assert cohort.bags is not None
    huge = SlideArray(np.full((3, FEATURES), 6e4, dtype=np.float32))
    slides = (cohort.bags.slides[0], (huge,))
    other = Cohort(
        cohort.covariates, cohort.time, cohort.event, cohort.number, Bags(slides, FEATURES)
    )
    query = question("bags", GaussianRelease(2.0, 0.5), size=1e30)
    alone = packed(query, cohort.take(np.array([0])))
    assert packed(query, other).tolist() == alone.tolist()


def test_what_leaves_has_the_noise_of_the_release() -> None:
    release = GaussianRelease(3.0, 0.5, sampling_rate=0.5)
    query = question("bags", release)
    randomness = SeededRandomnessForSimulations(4)
    replies = []
    for _ in range(40):
        drawn = query.private_answer(patients(), randomness)
        replies.append(noised(query.pack(drawn), release, randomness, masked=False))
    spread = np.std(np.array(replies), axis=0)
    expected = release.resolution * np.sqrt(noise_variance(release, spread.size, masked=False))
    assert np.sqrt((spread**2).mean()) == pytest.approx(expected, rel=0.1)


def test_a_sample_leaves_some_patients_out() -> None:
    query = question("bags", GaussianRelease(2.0, 0.5, sampling_rate=0.3))
    drawn = query.private_answer(patients(), SeededRandomnessForSimulations(1))
    assert np.abs(query.pack(drawn)).sum() > 0
    assert query.pack(drawn).tolist() != packed(query, patients()).tolist()
    assert query.name == "clipped network gradient of a sample"
