"""Features of six other programs load as they are and give the scores of our own file."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import fedcox.files.reading as memory
from fedcox.errors import SlideError
from fedcox.slides.bag_file import BagFacts, write_bag
from fedcox.slides.bag_reader import LAYOUTS, feature_path, open_bag
from fedcox.slides.feature_files import KnownSlide
from tests.slides.foreign_files import (
    MPP,
    SIZE,
    TILE_LEVEL0,
    TILE_PX,
    TILE_UM,
    WRITERS,
    invented_tiles,
    overwritten,
    write_clam,
    write_flamby,
    write_owkin,
    write_slideflow,
    write_stamp,
    write_trident,
)

pytest.importorskip("h5py")
pytest.importorskip("torch")

KNOWN = KnownSlide(MPP, SIZE, deepzoom_tile_px=224)
TILES = invented_tiles()
NAMES = {"CLAM, tensors": "CLAM"}
ENCODERS = {
    "TRIDENT": "uni_v1",
    "STAMP": "uni_v1",
    "slideflow": "slideflow.model.extractors.uni.UNIFeatures",
}


def own_file(folder: Path) -> Path:
    path = folder / "own" / "Slide_01.h5"
    facts = BagFacts(
        "Slide_01", "raw", MPP, TILE_PX, TILE_UM, TILE_LEVEL0, 0, 60, "uni_v1", "ab" * 32
    )
    write_bag(path, facts, TILES.coords, TILES.features)
    return path


@pytest.mark.parametrize("layout", WRITERS)
def test_every_layout_gives_the_same_features_places_and_tile(
    layout: str, tmp_path: Path
) -> None:
    path = WRITERS[layout](tmp_path, "Slide_01", TILES)
    found = open_bag(path, KNOWN)
    assert found.layout == NAMES.get(layout, layout)
    assert found.features.shape == TILES.features.shape
    np.testing.assert_array_equal(found.features.read(), TILES.features)
    assert found.coords is not None
    np.testing.assert_allclose(found.coords, TILES.coords, rtol=0, atol=1e-2)
    assert found.encoder == ENCODERS.get(layout)
    assert found.mpp == MPP
    assert found.tile_px_level0 == TILE_LEVEL0


@pytest.mark.parametrize("layout", WRITERS)
def test_every_layout_gives_the_scores_of_our_own_file(layout: str, tmp_path: Path) -> None:
    from fedcox.models.architecture import TileScorer
    from fedcox.models.modules import start
    from fedcox.models.tile_scorer import tile_scores

    network = TileScorer(16, 8)
    theta = start(network, 3)
    ours = tile_scores(open_bag(own_file(tmp_path)).features.read(), network, theta)
    path = WRITERS[layout](tmp_path, "Slide_01", TILES)
    theirs = tile_scores(open_bag(path, KNOWN).features.read(), network, theta)
    np.testing.assert_allclose(theirs, ours, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("layout", WRITERS)
def test_a_slide_is_found_by_its_name_in_a_folder_of_any_layout(
    layout: str, tmp_path: Path
) -> None:
    path = WRITERS[layout](tmp_path, "Slide_01", TILES)
    WRITERS[layout](tmp_path, "Slide_0", invented_tiles(seed=1))
    found = open_bag(feature_path(tmp_path, "Slide_01"), KNOWN)
    np.testing.assert_array_equal(found.features.read(), TILES.features)
    if layout != "CLAM, tensors":  # the HDF5 file beside it holds the same
        assert feature_path(tmp_path, "Slide_01") == path
    with pytest.raises(SlideError, match="no features of slide 'Slide_'"):
        feature_path(tmp_path, "Slide_")


@pytest.mark.parametrize("layout", ["STAMP", "slideflow", "Owkin"])
def test_without_the_slide_places_are_missing_with_a_reason_and_never_guessed(
    layout: str, tmp_path: Path
) -> None:
    path = WRITERS[layout](tmp_path, "Slide_01", TILES)
    found = open_bag(path)
    assert found.coords is None
    assert "not known" in found.no_coords
    np.testing.assert_array_equal(found.features.read(), TILES.features)


def test_deep_zoom_places_are_not_guessed_where_nobody_tells_how_large_tiles_are(
    tmp_path: Path,
) -> None:
    found = open_bag(write_owkin(tmp_path, "a", TILES), KnownSlide(MPP, SIZE))
    assert found.coords is None
    assert "--deepzoom-tile-px" in found.no_coords


def test_deep_zoom_places_are_those_that_openslide_gives(tmp_path: Path) -> None:
    openslide = pytest.importorskip("openslide")
    image = pytest.importorskip("PIL.Image")
    deepzoom = pytest.importorskip("openslide.deepzoom")

    size = (1501, 997)
    slide = openslide.ImageSlide(image.new("RGB", size))
    pyramid = deepzoom.DeepZoomGenerator(slide, tile_size=32, overlap=0)
    rows = []
    expected = []
    for level in (pyramid.level_count - 1, pyramid.level_count - 2, pyramid.level_count - 3):
        columns, lines = pyramid.level_tiles[level]
        for place in ((0, 0), (columns - 1, 0), (columns // 2, lines - 1)):
            rows.append([level, *place, 0.5, 0.25])
            expected.append(pyramid.get_tile_coordinates(level, place)[0])
    path = tmp_path / "s" / "features.npy"
    path.parent.mkdir()
    np.save(path, np.array(rows, dtype=np.float32))
    found = open_bag(path, KnownSlide(0.5, size, deepzoom_tile_px=32))
    assert found.coords is not None
    # Every second size is rounded up on the way, by less than a pixel of the level.
    np.testing.assert_allclose(found.coords, expected, rtol=0, atol=4)
    assert found.tile_px_level0 is None  # of several levels


def test_deep_zoom_places_of_another_slide_are_refused(tmp_path: Path) -> None:
    path = write_owkin(tmp_path, "a", TILES)
    with pytest.raises(SlideError, match="a slide of this size has 13"):
        open_bag(path, KnownSlide(MPP, (5000, 5000), 224))
    with pytest.raises(SlideError, match="outside of the slide"):
        open_bag(path, KnownSlide(MPP, (20_000, 500), 224))


def test_slides_of_one_flamby_folder_share_one_table_of_places(tmp_path: Path) -> None:
    other = invented_tiles(11, seed=5)
    write_flamby(tmp_path, "Normal_001", TILES)
    path = write_flamby(tmp_path, "Normal_002", other)
    found = open_bag(path, KNOWN)
    assert found.coords is not None
    np.testing.assert_array_equal(found.coords, other.coords)
    (tmp_path / "tiling_coordinates_camelyon16.csv").unlink()
    assert "tiling_coordinates" in open_bag(path).no_coords


def test_clams_tensor_without_its_hdf5_file_has_features_and_no_places(tmp_path: Path) -> None:
    path = WRITERS["CLAM, tensors"](tmp_path, "a", TILES)
    (tmp_path / "h5_files" / "a.h5").unlink()
    found = open_bag(path)
    np.testing.assert_array_equal(found.features.read(), TILES.features)
    assert found.coords is None
    assert "h5_files" in found.no_coords


def test_clams_tiles_are_as_wide_as_they_lie_apart_where_nothing_tells(tmp_path: Path) -> None:
    columns, rows = np.divmod(np.arange(37), 9)
    grid = type(TILES)(np.stack([columns, rows], axis=1), TILES.features)
    path = write_clam(tmp_path, "a", grid)
    scattered = write_clam(tmp_path, "b", invented_tiles(seed=9))
    for name in ("a", "b"):
        (tmp_path / "patches" / f"{name}.h5").unlink()
    assert open_bag(path).tile_px_level0 == TILE_LEVEL0
    # Places in no order give no answer rather than a wrong one.
    assert open_bag(scattered).tile_px_level0 is None


def test_older_files_of_trident_stamp_and_slideflow(tmp_path: Path) -> None:
    import h5py

    path = write_trident(tmp_path, "a", TILES)
    with h5py.File(path, "a") as file:
        del file["features"].attrs["encoder"]
    assert open_bag(path).layout == "TRIDENT"
    assert open_bag(path).encoder is None
    path = write_stamp(tmp_path, "b", TILES)
    with h5py.File(path, "a") as file:
        file.attrs["tile_size"] = file.attrs["tile_size_um"]
        del file.attrs["tile_size_um"]
    assert open_bag(path, KNOWN).tile_px_level0 == TILE_LEVEL0
    path = write_slideflow(tmp_path, "c", TILES)
    before = open_bag(path, KNOWN).coords
    (index,) = np.load(tmp_path / "c.index.npz").values()
    (tmp_path / "c.index.npz").unlink()
    np.save(tmp_path / "c.index.npy", index)
    np.testing.assert_array_equal(open_bag(path, KNOWN).coords, before)


def test_an_older_array_of_one_bag_is_the_bag(tmp_path: Path) -> None:
    path = write_clam(tmp_path, "a", TILES)
    overwritten(path, features=TILES.features[None])
    np.testing.assert_array_equal(open_bag(path).features.read(), TILES.features)


def test_an_unknown_layout_is_told_with_what_was_found_and_what_is_known(
    tmp_path: Path,
) -> None:
    import h5py

    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["embeddings"] = TILES.features
    with pytest.raises(SlideError, match="an HDF5 file with 'embeddings'") as told:
        open_bag(path)
    for layout in LAYOUTS:
        assert layout.name in str(told.value)
    parquet = tmp_path / "a.parquet"
    parquet.write_bytes(b"PAR1")
    with pytest.raises(SlideError, match=r"ends in '.parquet'"):
        open_bag(parquet)
    with pytest.raises(SlideError, match=r"a folder without features.npy"):
        open_bag(tmp_path)
    with pytest.raises(SlideError, match="no features at"):
        open_bag(tmp_path / "nowhere.h5")


@pytest.mark.parametrize("layout", WRITERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_told_with_the_number_of_tiles(
    layout: str, bad: float, tmp_path: Path
) -> None:
    features = TILES.features.copy()
    features[[3, 8], [0, 5]] = bad
    path = WRITERS[layout](tmp_path, "a", type(TILES)(TILES.places, features))
    with pytest.raises(SlideError, match="2 of 37 tiles have features that are not finite"):
        open_bag(path, KNOWN).features.read()


@pytest.mark.parametrize("layout", [name for name in WRITERS if name != "STAMP"])
@pytest.mark.parametrize("bad", [6.1e4, -1e6])
def test_features_that_half_floats_do_not_hold_are_told(
    layout: str, bad: float, tmp_path: Path
) -> None:
    features = TILES.features.copy()
    features[[3, 8], [0, 5]] = bad
    path = WRITERS[layout](tmp_path, "a", type(TILES)(TILES.places, features))
    with pytest.raises(SlideError, match="2 of 37 tiles have features above 60000"):
        open_bag(path, KNOWN).features.read()


@pytest.mark.parametrize("layout", ["CLAM", "TRIDENT", "STAMP"])
def test_a_file_that_was_cut_off_is_told(layout: str, tmp_path: Path) -> None:
    path = WRITERS[layout](tmp_path, "a", TILES)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(SlideError, match="no whole HDF5 file"):
        open_bag(path, KNOWN)


@pytest.mark.parametrize("layout", ["CLAM, tensors", "slideflow", "Owkin", "FLamby"])
def test_arrays_and_tensors_that_were_cut_off_are_told(layout: str, tmp_path: Path) -> None:
    path = WRITERS[layout](tmp_path, "a", TILES)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(SlideError, match="It is no"):
        open_bag(path, KNOWN).features.read()


def test_numbers_of_features_and_places_must_agree(tmp_path: Path) -> None:
    for write, name in ((write_clam, "features"), (write_stamp, "feats")):
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder, "a", TILES)
        overwritten(path, **{name: TILES.features[:-2]})
        with pytest.raises(SlideError, match="35 tiles with features and 37 with a place"):
            open_bag(path, KNOWN)
    path = write_slideflow(tmp_path, "b", TILES)
    np.savez(tmp_path / "b.index.npz", TILES.coords[:5])
    with pytest.raises(SlideError, match="37 tiles with features and 5 with a place"):
        open_bag(path, KNOWN)


def test_an_empty_bag_and_one_of_another_shape_are_told(tmp_path: Path) -> None:
    path = write_trident(tmp_path, "a", TILES)
    overwritten(path, features=TILES.features[:0], coords=TILES.coords[:0])
    with pytest.raises(SlideError, match="There is no tile"):
        open_bag(path)
    np.save(tmp_path / "b.npy", np.zeros((3, 4, 5), dtype=np.float32))
    with pytest.raises(SlideError, match=r"shape \(3, 4, 5\)"):
        open_bag(tmp_path / "b.npy")


class _Executed:
    """What a pickle may hold; loading it would run the call."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("executed"),))  # type: ignore[return-value]


def test_nothing_in_a_tensor_or_array_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"features": _Executed()}, tmp_path / "a.pt")
    with pytest.raises(SlideError, match="tensors alone"):
        open_bag(tmp_path / "a.pt")
    np.save(tmp_path / "b.npy", np.array([_Executed()], dtype=object), allow_pickle=True)
    with pytest.raises(SlideError, match="no whole array"):
        open_bag(tmp_path / "b.npy")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("write", [own_file, lambda place: write_clam(place, "a", TILES)])
@pytest.mark.parametrize("name", ["features", "coords"])
def test_a_name_that_is_no_array_is_told(
    write: Callable[[Path], Path], name: str, tmp_path: Path
) -> None:
    import h5py

    path = write(tmp_path)
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = np.dtype("f4")
    with pytest.raises(SlideError, match=f"'{name}' is an HDF5 datatype"):
        open_bag(path, KNOWN)
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_group(name)
    with pytest.raises(SlideError, match=f"'{name}' is an HDF5 group"):
        open_bag(path, KNOWN)


@pytest.mark.parametrize("name", ["features", "coords"])
def test_a_small_file_that_declares_477_gib_is_refused_unread(
    name: str, tmp_path: Path
) -> None:
    import h5py

    for path in (own_file(tmp_path), write_clam(tmp_path, "a", TILES)):
        with h5py.File(path, "a") as file:
            del file[name]
            file.create_dataset(name, (10**9, 128), "f4", chunks=(1024, 128))
        with pytest.raises(SlideError, match=r"declares 476\.8 GiB"):
            open_bag(path, KNOWN)


def test_archives_and_tensors_that_declare_too_much_are_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    torch.save(torch.ones(1, 1).expand(10**9, 128), tmp_path / "a.pt")
    with pytest.raises(SlideError, match=r"declares 476\.8 GiB"):
        open_bag(tmp_path / "a.pt")
    path = write_slideflow(tmp_path, "b", TILES)
    index = tmp_path / "b.index.npz"
    short = BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**10, 2)}
    np.lib.format.write_array_header_1_0(short, header)
    with ZipFile(index, "w") as archive:
        archive.writestr("arr_0.npy", short.getvalue() + bytes(16))
    with pytest.raises(SlideError, match="more numbers than the file"):
        open_bag(path, KNOWN)
    np.savez_compressed(index, np.zeros((100_000, 2)))
    assert index.stat().st_size < 10_000
    monkeypatch.setattr(memory, "machine_bytes", lambda: 100_000)
    with pytest.raises(SlideError, match="declares"):
        open_bag(path, KNOWN)


@pytest.mark.parametrize("layout", ["CLAM, tensors", "slideflow", "Owkin", "FLamby"])
def test_whatever_byte_is_damaged_there_is_a_word_or_a_bag(layout: str, tmp_path: Path) -> None:
    path = WRITERS[layout](tmp_path, "a", TILES)
    damaged = tmp_path / "a.index.npz" if layout == "slideflow" else path
    damaged = damaged / "features.npy" if damaged.is_dir() else damaged
    whole, rng, refused = damaged.read_bytes(), np.random.default_rng(1), 0
    for _ in range(150):
        content = bytearray(whole)
        content[rng.integers(min(len(content), 1000))] = rng.integers(256)
        damaged.write_bytes(content)
        try:
            open_bag(path, KNOWN).features.read()
        except SlideError:
            refused += 1
    assert refused > 0


def test_a_tensor_file_with_something_else_is_told(tmp_path: Path) -> None:
    import torch

    torch.save({"feats": torch.zeros(3, 4)}, tmp_path / "a.pt")
    with pytest.raises(SlideError, match="holds a dict; one tensor is needed"):
        open_bag(tmp_path / "a.pt")
    torch.save(torch.ones(3, 4, dtype=torch.int64), tmp_path / "b.pt")
    with pytest.raises(SlideError, match="int64"):
        open_bag(tmp_path / "b.pt").features.read()
    torch.save(torch.ones(3, 4, dtype=torch.bfloat16), tmp_path / "c.pt")
    np.testing.assert_array_equal(
        open_bag(tmp_path / "c.pt").features.read(), np.ones((3, 4), dtype=np.float32)
    )
