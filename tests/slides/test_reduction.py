"""The reducer is the best linear autoencoder without bias, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import InputError, RefusedError, WeightsError
from fedcox.slides.reducer_fit import (
    _first_weights,
    _gradient,
    sampled_tiles,
    train_autoencoder,
)
from fedcox.slides.reduction import (
    Reducer,
    ReducerFacts,
    Reduction,
    federated_reducer,
    read_reducer,
    reducer_from_moments,
    write_reducer,
)
from fedcox.survival.bags import SlideArray
from fedcox.survival.cohort import Cohort
from tests.slides.shifted_tiles import (
    all_tiles,
    lost,
    shifted_tiles,
    subspace_gap,
    tiled_cohort,
)

TILES = np.concatenate([shifted_tiles(900, seed=k, shift=k) for k in range(3)])
DOUBLE = TILES.astype(np.float64)
SECOND = DOUBLE.T @ DOUBLE


def fitted(size: int = 8, **facts: bool) -> Reducer:
    return reducer_from_moments(SECOND, len(TILES), size, ReducerFacts(**facts))  # type: ignore[arg-type]


def test_it_is_the_space_of_the_largest_singular_vectors() -> None:
    reducer = fitted()
    right = np.linalg.svd(DOUBLE, full_matrices=False)[2][:8].T
    assert subspace_gap(reducer.components, right) < 1e-9
    np.testing.assert_allclose(reducer.components.T @ reducer.components, np.eye(8), atol=1e-12)
    assert reducer.facts.error == pytest.approx(lost(DOUBLE, right), rel=1e-9)
    assert reducer.facts.tiles == len(TILES)
    scales = np.sqrt(np.square(DOUBLE @ reducer.components).mean(axis=0))
    np.testing.assert_allclose(reducer.scales, scales, rtol=1e-9)
    assert (np.diff(reducer.scales) < 0).all()


def test_a_centred_basis_loses_far_more_of_features_with_a_mean() -> None:
    tiles = shifted_tiles(2000).astype(np.float64)  # one mean for all
    centred = np.linalg.eigh(np.cov(tiles.T))[1][:, -8:]
    ours = reducer_from_moments(tiles.T @ tiles, len(tiles), 8).facts.error
    assert lost(tiles, centred) > 0.5
    assert ours < 0.01


def test_signs_do_not_depend_on_how_vectors_were_found() -> None:
    components = fitted().components
    largest = np.abs(components).argmax(axis=0)
    assert (components[largest, np.arange(8)] > 0).all()
    # Moments of features in another order: the same vectors, in that order.
    order = np.random.default_rng(0).permutation(len(SECOND))
    turned = reducer_from_moments(SECOND[np.ix_(order, order)], len(TILES), 8)
    np.testing.assert_allclose(turned.components, components[order], atol=1e-9)


def test_features_become_projections_in_any_precision_and_number_of_tiles() -> None:
    reducer = fitted()
    expected = DOUBLE @ reducer.components
    many = np.tile(TILES, (3, 1))  # more than are multiplied at once
    np.testing.assert_allclose(reducer.apply(many)[: len(TILES)], expected, rtol=0, atol=2e-5)
    single = TILES.astype(np.float32)
    np.testing.assert_array_equal(reducer.apply(TILES), reducer.apply(single))
    assert reducer.apply(TILES[:1]).shape == (1, 8)
    assert reducer.apply(TILES).dtype == np.float32


def test_whitened_features_have_mean_square_one() -> None:
    reducer = fitted(whitened=True)
    np.testing.assert_allclose(np.square(reducer.apply(TILES)).mean(axis=0), 1, rtol=1e-4)
    np.testing.assert_array_equal(reducer.components, fitted().components)


def test_directions_that_are_only_rounding_are_not_whitened() -> None:
    flat = DOUBLE.copy()
    flat[:, 5:] = 0
    with pytest.raises(InputError, match="5 directions only, too few to whiten 8"):
        reducer_from_moments(flat.T @ flat, len(flat), 8, ReducerFacts(whitened=True))
    assert reducer_from_moments(flat.T @ flat, len(flat), 8).facts.error < 1e-12


@pytest.mark.parametrize("size", [0, 49, -1])
def test_sizes_that_cannot_be_are_refused(size: int) -> None:
    with pytest.raises(InputError, match="from 1 to 48"):
        reducer_from_moments(SECOND, len(TILES), size)


def test_moments_without_sense_are_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        reducer_from_moments(SECOND * np.nan, 9, 8)
    with pytest.raises(InputError, match="All features are zero"):
        reducer_from_moments(0 * SECOND, 9, 8)
    with pytest.raises(InputError, match="fitted on 48"):
        fitted().apply(TILES[:, :40])


def test_a_reducer_comes_back_from_its_file(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    facts = ReducerFacts(
        "pca", 0, 70, 0.0, True, encoder="resnet50", encoder_sha256="ab", settings="xyz"
    )
    reducer = reducer_from_moments(SECOND, len(TILES), 8, facts)
    path = tmp_path / "work" / "reducer.safetensors"
    write_reducer(path, reducer)
    found = read_reducer(path)
    assert found.facts == reducer.facts
    assert found.facts.patients == 70
    assert found.sha256 == reducer.sha256
    np.testing.assert_array_equal(found.components, reducer.components)
    np.testing.assert_array_equal(found.apply(TILES), reducer.apply(TILES))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    write_reducer(tmp_path / "again", reducer)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_maps_that_differ_have_different_names() -> None:
    reducers = [
        fitted(),
        fitted(9),
        fitted(whitened=True),
        reducer_from_moments(SECOND + np.eye(48) * 50 * np.arange(48), len(TILES), 8),
        reducer_from_moments(SECOND, len(TILES), 8, ReducerFacts(encoder_sha256="other")),
    ]
    assert len({reducer.sha256 for reducer in reducers}) == len(reducers)
    assert fitted().sha256 == fitted().sha256


def test_files_that_hold_no_reducer_are_told(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "r.safetensors"
    with pytest.raises(WeightsError, match="no reducer"):
        read_reducer(path)
    numpy.save_file({"x": np.zeros(3)}, path)
    with pytest.raises(WeightsError, match="no reducer"):
        read_reducer(path)
    write_reducer(path, fitted())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(WeightsError, match="no reducer"):
        read_reducer(path)
    broken = fitted()
    write_reducer(path, Reducer(broken.components * np.nan, broken.scales, broken.facts))
    with pytest.raises(WeightsError, match="linear map"):
        read_reducer(path)


def test_the_autoencoder_never_reaches_the_closed_form() -> None:
    sample = np.concatenate([shifted_tiles(7000, 24, seed=k, shift=k) for k in range(3)])
    trained = train_autoencoder(sample.astype(np.float32), 6, seed=0, epochs=60)
    double = sample.astype(np.float64)
    best = reducer_from_moments(double.T @ double, len(sample), 6).facts.error
    errors = np.array(trained.errors)
    assert (errors >= best).all()
    assert errors[2] > 5 * best  # where the paper stops
    assert errors[-1] < 2 * best  # it approaches from above
    again = train_autoencoder(sample.astype(np.float32), 6, seed=0)
    assert again.errors == trained.errors[:3]


def test_the_autoencoders_slope_is_that_of_torchs_mean_square_error() -> None:
    torch = pytest.importorskip("torch")
    batch = TILES[:100].astype(np.float32)
    start = _first_weights(48, 5, np.random.default_rng(2)).astype(np.float32)
    down = torch.tensor(start[:240].reshape(48, 5), requires_grad=True)
    up = torch.tensor(start[240:].reshape(5, 48), requires_grad=True)
    rows = torch.from_numpy(batch)
    torch.nn.functional.mse_loss(rows @ down @ up, rows).backward()
    slope = np.empty(480)
    _gradient(batch, start[:240].reshape(48, 5), start[240:].reshape(5, 48), slope)
    expected = torch.cat([down.grad.ravel(), up.grad.ravel()])
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


def test_the_autoencoder_is_the_same_by_seed_and_makes_a_reducer() -> None:
    sample = TILES.astype(np.float32)
    first, second = (train_autoencoder(sample, 4, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.encoder, second.encoder)
    other = train_autoencoder(sample, 4, seed=6)
    assert not np.array_equal(first.encoder, other.encoder)
    reducer = first.reducer(sample, ReducerFacts("adam", error=first.errors[-1]))
    np.testing.assert_allclose(
        reducer.scales, np.sqrt(np.square(reducer.apply(TILES)).mean(axis=0)), rtol=1e-4
    )
    whitened = first.reducer(sample, replace(reducer.facts, whitened=True))
    np.testing.assert_allclose(np.square(whitened.apply(TILES)).mean(axis=0), 1, rtol=1e-4)


def test_tiles_are_drawn_by_seed_without_repeats_and_over_all_slides() -> None:
    numbered = np.arange(600, dtype=np.float32).reshape(-1, 1)
    cuts = (0, 1, 40, 41, 300, 600)
    slides = [SlideArray(numbered[a:b]) for a, b in pairwise(cuts)]
    drawn = sampled_tiles(slides, seed=3, most=250)[:, 0]
    assert len(set(drawn)) == 250
    assert set(drawn) <= set(range(600))
    np.testing.assert_array_equal(drawn, sampled_tiles(slides, seed=3, most=250)[:, 0])
    assert set(sampled_tiles(slides, seed=4, most=250)[:, 0]) != set(drawn)
    assert 90 < np.count_nonzero(drawn < 300) < 160
    np.testing.assert_array_equal(sampled_tiles(slides, seed=3), numbered)
    with pytest.raises(InputError, match="no tile"):
        sampled_tiles([], seed=0)


COHORT = tiled_cohort()
PLAN = Reduction(48, 8, encoder="resnet50", encoder_sha256="ab")


def split(center: list[int]) -> dict[str, Cohort]:
    where = np.array(center)
    return {f"center {k}": COHORT.take(where == k) for k in range(max(center) + 2)}


@given(center=st.lists(st.integers(0, 5), min_size=30, max_size=30))
@settings(max_examples=20)
def test_any_split_gives_the_pooled_subspace_and_signs(center: list[int]) -> None:
    pooled = federated_reducer(PLAN, InProcess.from_cohorts({"all": COHORT}))
    found = federated_reducer(PLAN, InProcess.from_cohorts(split(center)))
    assert subspace_gap(found.components, pooled.components) < 1e-6
    np.testing.assert_allclose(found.components, pooled.components, atol=1e-8)
    np.testing.assert_allclose(found.scales, pooled.scales, rtol=1e-9)


def test_it_is_that_of_all_tiles_in_one_place_by_another_tool() -> None:
    tiles = all_tiles(COHORT)
    reference = svds(tiles, 8)[2].T  # ARPACK, which does not centre
    federation = InProcess.from_cohorts(split([k % 5 for k in range(30)]))
    found = federated_reducer(PLAN, federation)
    assert subspace_gap(found.components, reference) < 1e-6
    assert found.facts.error == pytest.approx(lost(tiles, reference), rel=1e-6)
    assert (found.facts.patients, found.facts.tiles) == (30, len(tiles))
    assert found.facts.encoder == "resnet50"


def test_its_error_is_at_most_that_of_the_autoencoder_after_three_epochs() -> None:
    federation = InProcess.from_cohorts(split([k % 3 for k in range(30)]))
    sample = all_tiles(COHORT).astype(np.float32)
    trained = train_autoencoder(sample, 8, seed=0)
    assert federated_reducer(PLAN, federation).facts.error <= min(trained.errors)


def test_it_takes_a_round_of_counts_and_one_of_the_upper_triangle() -> None:
    federation = InProcess.from_cohorts(split([k % 3 for k in range(30)]))
    federated_reducer(PLAN, federation)
    assert federation.ledger.rounds == 2
    sent = {(row.query, row.numbers_up) for row in federation.ledger.since((0, 0))}
    assert sent == {("tile counts", 2), ("tile moments", 2 + 48 * 49 // 2)}


def test_secure_sums_give_the_same_reducer() -> None:
    plain = InProcess.from_cohorts(split([k % 4 for k in range(30)]))
    pooled = federated_reducer(PLAN, plain)
    masked = federated_reducer(PLAN, Masked.around(plain))
    np.testing.assert_allclose(masked.components, pooled.components, atol=1e-9)


def test_too_few_patients_or_tiles_are_refused_with_the_reason() -> None:
    few = COHORT.take(np.arange(30) < 2)
    assert few.bags is not None
    federation = InProcess.from_cohorts({"few": few})
    with pytest.raises(RefusedError) as error:
        federated_reducer(Reduction(48, 8, fewest_tiles=few.bags.tiles + 1), federation)
    assert "Found 2 patients; at least 10 are needed." in str(error.value)
    assert f"Found {few.bags.tiles} tiles of 48 features each" in str(error.value)
    assert "single tiles can be worked out" in str(error.value)
    # Nothing about the tiles left before.
    assert {row.query for row in federation.ledger.since((0, 0))} == {"tile counts"}
    enough = Reduction(48, 8, fewest_patients=2, fewest_tiles=few.bags.tiles)
    assert federated_reducer(enough, federation).size == 8


def test_fewer_tiles_than_features_are_refused_unless_asked_for() -> None:
    cohort = tiled_cohort(12, features=1200)
    federation = InProcess.from_cohorts({"all": cohort})
    with pytest.raises(RefusedError, match="at least 1200 are needed"):
        federated_reducer(Reduction(1200, 8), federation)


def test_a_size_that_cannot_be_is_told_before_anything_is_asked() -> None:
    federation = InProcess.from_cohorts({"all": COHORT})
    with pytest.raises(InputError, match="from 1 to 48"):
        federated_reducer(Reduction(48, 256), federation)
    assert federation.ledger.rounds == 0
