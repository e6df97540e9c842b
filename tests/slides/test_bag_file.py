"""A bag is written whole or not at all, and comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import OutputError, SlideError
from fedcox.slides.bag_file import BagFacts, kept_settings, read_bag, write_bag
from fedcox.slides.bag_reader import open_bag

h5py = pytest.importorskip("h5py")

FACTS = BagFacts(
    "slide-7",
    "raw",
    mpp=0.2527,
    tile_px=224,
    tile_um=112.0,
    tile_px_level0=443.213,
    seed=3,
    n_tissue_tiles=9000,
    encoder="resnet50",
    encoder_sha256="ab" * 32,
    settings={"batch": 256, "mpp": 0.1 + 0.2, "weights": "x", "none": None},
)
RNG = np.random.default_rng(0)
COORDS = RNG.integers(0, 100_000, (50, 2))
FEATURES = RNG.normal(size=(50, 12)).astype(np.float32)


def test_a_bag_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "features" / "slide-7.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    bag = read_bag(path)
    assert bag.facts == FACTS
    assert bag.shape == (50, 12)
    np.testing.assert_array_equal(bag.coords, COORDS)
    assert bag.read().dtype == np.float16
    np.testing.assert_array_equal(bag.read(), FEATURES.astype(np.float16))
    assert kept_settings(path) == FACTS.settings
    assert open_bag(path).tissue_tiles == 9000
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_the_file_has_the_names_that_clam_and_trident_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    with h5py.File(path) as file:
        assert file["features"].dtype == np.float16
        assert file["features"].chunks is None
        assert file["coords"].dtype == np.int32
        assert dict(file["coords"].attrs) == {
            "patch_level": 0,
            "patch_size": 224,
            "patch_size_level0": 443.213,
        }
        assert file.attrs["schema"] == "fedcox-bag-1"
        assert file.attrs["n_tissue_tiles"] == 9000


@pytest.mark.parametrize("mark", [b"TREE", b"HEAP", b"SNOD", b"features"])
def test_a_damaged_file_is_told_wherever_the_damage_is(mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    whole = path.read_bytes()
    assert mark in whole
    path.write_bytes(whole.replace(mark, b"\xff" * len(mark)))
    with pytest.raises(SlideError, match=r"a\.h5"):
        open_bag(path).features.read()
    path.write_bytes(whole[: len(whole) // 2])
    assert kept_settings(path) is None


def test_a_full_disk_is_told_and_leaves_the_old_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS[:5], FEATURES[:5])
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"Cannot write .*a\.h5"):
            write_bag(path, FACTS, COORDS, FEATURES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.h5"]


def test_equal_bags_are_equal_bytes_and_others_have_another_digest(tmp_path: Path) -> None:
    write_bag(tmp_path / "a.h5", FACTS, COORDS, FEATURES)
    write_bag(tmp_path / "b.h5", FACTS, COORDS, FEATURES)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    digests = {read_bag(tmp_path / "a.h5").digest}
    others = [
        (replace(FACTS, seed=4), COORDS, FEATURES),
        (FACTS, COORDS + 1, FEATURES),
        (FACTS, COORDS, FEATURES + 1),
    ]
    for facts, coords, features in others:
        write_bag(tmp_path / "b.h5", facts, coords, features)
        digests.add(read_bag(tmp_path / "b.h5").digest)
    assert len(digests) == 4


def test_tiles_before_embedding_have_places_and_no_features(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, replace(FACTS, stage="tiles"), COORDS)
    bag = read_bag(path)
    assert bag.shape == (50, 0)
    assert bag.all_coords is None
    write_bag(path, replace(FACTS, stage="tiles"), COORDS, all_coords=COORDS.repeat(3, axis=0))
    more = read_bag(path)
    np.testing.assert_array_equal(more.all_coords, COORDS.repeat(3, axis=0))
    assert more.digest == bag.digest  # features are those of the tiles that were drawn
    with pytest.raises(SlideError, match="Embed first"):
        bag.read()


def test_features_whose_source_had_no_places_are_kept_without(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, BagFacts("slide-7", "reduced"), None, FEATURES)
    bag = read_bag(path)
    assert bag.coords is None
    assert bag.facts.mpp is None
    assert open_bag(path).no_coords


@pytest.mark.parametrize(
    ("coords", "features", "told"),
    [
        (COORDS, np.where(np.arange(12) == 3, np.nan, FEATURES), "50 of 50 tiles"),
        (COORDS, np.where(FEATURES[9, 2] == FEATURES, np.inf, FEATURES), "1 of 50 tiles"),
        (COORDS, np.where(FEATURES[9, 2] == FEATURES, 60_001, FEATURES), "half float"),
        (COORDS, np.where(FEATURES[9, 2] == FEATURES, -7e4, FEATURES), "half float"),
        (COORDS[:-1], FEATURES, "50 tiles have features and 49 have a place"),
        (COORDS[:0], FEATURES[:0], "no tile"),
        (COORDS, None, "Features are needed"),
        (None, None, "Places of tiles are needed"),
        (COORDS[:, :1], FEATURES, r"shape \(50, 1\)"),
        (COORDS.astype(float) + np.nan, FEATURES, "pixels of level 0"),
        (COORDS, FEATURES[:, 0], "shape"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_slides_name(
    coords: np.ndarray | None, features: np.ndarray | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(SlideError, match=told) as error:
        write_bag(path, FACTS, coords, features)
    assert "'slide-7'" in error.value.subject
    assert not any(tmp_path.iterdir())


def test_the_largest_features_that_are_kept_come_back_finite(tmp_path: Path) -> None:
    write_bag(tmp_path / "a.h5", FACTS, COORDS, np.full((50, 3), 6e4))
    assert float(read_bag(tmp_path / "a.h5").read().max()) == pytest.approx(6e4, rel=1e-3)


def test_a_bag_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    before = path.read_bytes()
    with pytest.raises(SlideError):
        write_bag(path, FACTS, COORDS, FEATURES * np.nan)
    assert path.read_bytes() == before
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        write_bag(tmp_path / "file" / "a.h5", FACTS, COORDS, FEATURES)


def test_a_file_that_was_cut_off_anywhere_is_not_taken_for_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert kept_settings(path) is None
        with pytest.raises(SlideError, match="HDF5"):
            read_bag(path)


def test_files_that_claim_our_schema_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_bag(path, FACTS, COORDS, FEATURES)
    with h5py.File(path, "a") as file:
        file.attrs["stage"] = "cooked"
    with pytest.raises(SlideError, match="cooked"):
        read_bag(path)
    with h5py.File(path, "a") as file:
        file.attrs["stage"] = "raw"
        file.attrs["mpp"] = "fine"
    with pytest.raises(SlideError, match="attributes"):
        read_bag(path)
    write_bag(path, FACTS, COORDS, FEATURES)
    with h5py.File(path, "a") as file:
        del file["coords"]
        file["coords"] = COORDS[:7]
    with pytest.raises(SlideError, match="50 tiles with features and 7 with a place"):
        read_bag(path)
    with h5py.File(path, "w") as file:
        file.attrs["schema"] = "fedcox-bag-9"
    with pytest.raises(SlideError, match="schema"):
        read_bag(path)
    assert kept_settings(path) is None
