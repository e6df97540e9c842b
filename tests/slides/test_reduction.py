"""The reducer is the best linear autoencoder without bias, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import InputError, WeightsError
from fedcox.slides.reducer_fit import (
    _first_weights,
    _gradient,
    sampled_tiles,
    train_autoencoder,
)
from fedcox.slides.reduction import (
    Reducer,
    ReducerFacts,
    read_reducer,
    reducer_from_moments,
    write_reducer,
)
from fedcox.survival.bags import SlideArray
from tests.slides.shifted_tiles import lost, shifted_tiles, subspace_gap

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
