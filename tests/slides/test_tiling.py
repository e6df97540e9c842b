"""From a folder of slides to places of tiles; killed in between, the files are the same."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedcox.errors import InputError, SlideError
from fedcox.slides.bag_file import read_bag
from fedcox.slides.manifest import SlideManifest
from fedcox.slides.mask_file import mask_settings, read_mask
from fedcox.slides.simulated_slides import SimulatedSlides, simulate_slides
from fedcox.slides.step import StepOutcome, run_step
from fedcox.slides.tiling import Segmentation, Tiling, draw_tiles, tile_grid
from fedcox.slides.tissue import OtsuTissue, Region
from tests.slides.drawn import Row, cut_in_half, drawn_slide, glass

TILING = Tiling(tile_um=64.0, mpp=1.0, max_tiles=20)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SimulatedSlides:
    return simulate_slides(tmp_path_factory.mktemp("simulated"), 4, 2, 1, size_px=768)


def segmented(simulated: SimulatedSlides, work: Path) -> StepOutcome:
    return run_step(Segmentation(), SlideManifest.read(simulated.manifest).slides, work)


def tiled(simulated: SimulatedSlides, work: Path, step: Tiling = TILING) -> StepOutcome:
    return run_step(step, SlideManifest.read(simulated.manifest).slides, work)


def files(work: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(work)): path.read_bytes()
        for path in work.rglob("*")
        if path.is_file()
    }


def test_masks_and_tiles_of_every_slide(simulated: SimulatedSlides, tmp_path: Path) -> None:
    slides = SlideManifest.read(simulated.manifest).slides
    assert len(segmented(simulated, tmp_path).made) == len(slides)
    outcome = tiled(simulated, tmp_path)
    assert outcome.tiles == 20 * len(slides)
    for row in slides:
        bag = read_bag(tmp_path / "tiles" / f"{row.slide_id}.h5")
        tissue, _ = read_mask(tmp_path / "masks" / f"{row.slide_id}.png")
        assert bag.coords is not None
        assert bag.all_coords is not None
        assert len(bag.coords) == 20 < len(bag.all_coords) == bag.facts.n_tissue_tiles
        assert (tissue.region.share(bag.all_coords, 64.0) >= 0.5).all()
        drawn = {tuple(place) for place in bag.coords.tolist()}
        assert drawn < {tuple(place) for place in bag.all_coords.tolist()}
        assert (bag.facts.tile_px, bag.facts.tile_um) == (64, 64.0)
        assert bag.facts.tile_px_level0 == pytest.approx(64.0, rel=1e-6)
        assert (tmp_path / "masks" / f"{row.slide_id}.geojson").exists()


def test_a_second_run_touches_nothing(simulated: SimulatedSlides, tmp_path: Path) -> None:
    segmented(simulated, tmp_path)
    tiled(simulated, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.[ph][n5]*")}
    assert not segmented(simulated, tmp_path).made
    assert not tiled(simulated, tmp_path).made
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_other_settings_are_made_anew(simulated: SimulatedSlides, tmp_path: Path) -> None:
    segmented(simulated, tmp_path)
    tiled(simulated, tmp_path)
    slides = SlideManifest.read(simulated.manifest).slides
    other_seed = Tiling(tile_um=64.0, mpp=1.0, max_tiles=20, seed=1)
    assert len(tiled(simulated, tmp_path, other_seed).redone) == len(slides)
    # A mask of other settings changes the tiles only where it changes the tissue.
    coarse = Segmentation(OtsuTissue(16.0))
    assert len(run_step(coarse, slides, tmp_path).redone) == len(slides)
    assert len(tiled(simulated, tmp_path, other_seed).redone) == len(slides)
    same = Segmentation(OtsuTissue(16.0), speck_um2=49_999.0)
    assert len(run_step(same, slides, tmp_path).redone) == len(slides)
    assert len(tiled(simulated, tmp_path, other_seed).kept) == len(slides)


def test_killed_and_run_again_gives_the_same_files(
    simulated: SimulatedSlides, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    segmented(simulated, whole)
    tiled(simulated, whole)
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from fedcox.slides import tiling\n"
        "from fedcox.slides.manifest import SlideManifest\n"
        "from fedcox.slides.step import run_step\n"
        "write, made = tiling.write_mask, []\n"
        "def slow(path, tissue, settings):\n"
        "    if made:\n"
        "        path.with_name(f'.{path.name}.1.part').write_bytes(b'half')\n"
        "        print('now', flush=True)\n"
        "        time.sleep(600)\n"
        "    write(path, tissue, settings)\n"
        "    made.append(path)\n"
        "tiling.write_mask = slow\n"
        "slides = SlideManifest.read(sys.argv[1]).slides\n"
        "run_step(tiling.Segmentation(), slides, Path(sys.argv[2]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, simulated.manifest, broken], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert list(broken.rglob("*.claim"))
    outcome = segmented(simulated, broken)
    assert len(outcome.kept) == 1
    assert not outcome.busy
    tiled(simulated, broken)
    assert files(broken) == files(whole)


def test_each_bad_slide_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good, untold, cut = (tmp_path / f"{name}.tiff" for name in ("good", "untold", "cut"))
    empty, noise = tmp_path / "empty.tiff", tmp_path / "noise.svs"
    drawn_slide(good)
    drawn_slide(untold, told=False)
    drawn_slide(cut)
    cut_in_half(cut)
    glass(empty)
    noise.write_bytes(os.urandom(1000))
    rows = [Row(file.stem, file) for file in (untold, cut, empty, noise, good)]
    rows += [Row("missing", tmp_path / "missing.svs"), Row("nowhere", None)]
    work = tmp_path / "work"
    outcome = run_step(Segmentation(), rows, work)
    assert outcome.made == ("good",)
    expected = {
        "untold": "--assume-mpp",
        "cut": "truncated",
        "empty": "no tissue",
        "noise": "not a slide",
        "missing": "no file",
        "nowhere": "names no file",
    }
    assert outcome.failed.keys() == expected.keys()
    for name, word in expected.items():
        assert word in outcome.failed[name]
    # The slide without a resolution goes on with an assumed one; the good one is kept.
    again = run_step(Segmentation(assume_mpp=1.0), rows, work)
    assert (again.made, again.kept) == (("untold",), ("good",))
    # Without a mask there are no tiles, and it is said what to run.
    after = run_step(TILING, rows, work)
    assert set(after.made) == {"good", "untold"}
    assert "fedcox slides segment" in after.failed["empty"]


def test_a_slide_coarser_than_asked_for_is_not_blown_up(
    simulated: SimulatedSlides, tmp_path: Path
) -> None:
    segmented(simulated, tmp_path)
    outcome = tiled(simulated, tmp_path, Tiling(tile_um=112.0, mpp=0.5))
    assert not outcome.made
    assert all("--mpp 1" in reason for reason in outcome.failed.values())


def test_a_slide_without_one_whole_tile_of_tissue_is_named(
    simulated: SimulatedSlides, tmp_path: Path
) -> None:
    segmented(simulated, tmp_path)
    outcome = tiled(simulated, tmp_path, Tiling(tile_um=768.0, mpp=1.0, min_tissue=0.99))
    assert all("No tile of 768 micrometres" in reason for reason in outcome.failed.values())


def test_a_tile_has_a_whole_number_of_pixels() -> None:
    with pytest.raises(InputError, match=r"186\.667 pixels") as raised:
        Tiling(tile_um=112.0, mpp=0.6)
    assert "--tile-um 112.2 for 187" in raised.value.faults[0]
    assert Tiling(tile_um=112.0, mpp=0.5).tile_px == 224


def test_overviews_are_what_masks_are_of(simulated: SimulatedSlides, tmp_path: Path) -> None:
    from PIL import Image

    slides = SlideManifest.read(simulated.manifest).slides
    segmented(simulated, tmp_path)
    outcome = run_step(Segmentation(overviews=True), slides, tmp_path)
    assert len(outcome.redone) == len(slides)
    for row in slides:
        picture = np.asarray(Image.open(tmp_path / "overviews" / f"{row.slide_id}.png"))
        mask = np.asarray(Image.open(tmp_path / "masks" / f"{row.slide_id}.png"))
        assert picture.shape[:2] == mask.shape


def test_a_mask_that_declares_too_much_or_is_damaged_is_told(
    simulated: SimulatedSlides, tmp_path: Path
) -> None:
    segmented(simulated, tmp_path)
    mask = next((tmp_path / "masks").glob("*.png"))
    whole, rng = mask.read_bytes(), np.random.default_rng(3)
    at = whole.index(b"IHDR")
    header = b"IHDR" + struct.pack(">II", 1 << 20, 1 << 20) + whole[at + 12 : at + 17]
    check = struct.pack(">I", zlib.crc32(header))
    mask.write_bytes(whole[:at] + header + check + whole[at + 21 :])
    with pytest.raises(SlideError, match="is not a mask of this package, or is damaged"):
        read_mask(mask)
    assert mask_settings(mask) is None
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        content[rng.integers(len(content))] = rng.integers(256)
        mask.write_bytes(content)
        mask_settings(mask)
        try:
            read_mask(mask)
        except SlideError:
            refused += 1
    assert 0 < refused < 300


pictures = arrays(bool, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.booleans())


@settings(max_examples=100)
@given(
    pictures,
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_the_share_of_a_square_is_what_counting_gives(
    pixels: NDArray[np.bool_], fold: int, places: list[tuple[int, int]], side: int
) -> None:
    corners = np.array(places, np.int32)
    full = np.zeros((120, 120), bool)
    large = np.kron(pixels, np.ones((fold, fold), bool))
    full[20 : 20 + large.shape[0], 20 : 20 + large.shape[1]] = large
    counted = [
        full[20 + y : 20 + y + side, 20 + x : 20 + x + side].sum() / side**2 for x, y in places
    ]
    share = Region(pixels, float(fold)).share(corners, float(side))
    np.testing.assert_allclose(share, counted, atol=1e-12)


def test_a_grid_in_micrometres_has_the_same_tiles_at_every_resolution() -> None:
    pixels = np.zeros((64, 64), bool)
    pixels[8:40, 16:56] = True
    fine = tile_grid((2048, 2048), 0.25, 64.0, Region(pixels, 32.0), 0.5)
    coarse = tile_grid((512, 512), 1.0, 64.0, Region(pixels, 8.0), 0.5)
    np.testing.assert_array_equal(fine, 4 * coarse)
    # 64 µm are 8 pixels of the mask: rows 8 to 40, columns 16 to 56.
    assert len(coarse) == 4 * 5
    assert coarse.dtype == np.int32
    assert coarse.tolist()[:2] == [[128, 64], [192, 64]]


def test_tiles_do_not_overlap_and_stay_on_the_slide() -> None:
    everywhere = Region(np.ones((130, 130), bool), 8.0)
    side = 112 / 0.4963
    corners = tile_grid((1000, 700), 0.4963, 112.0, everywhere, 1.0)
    assert len(corners) == int(1000 / side) * int(700 / side)
    assert (corners + side <= [1000.5, 700.5]).all()
    gaps = np.diff(np.unique(corners[:, 0]).astype(float))
    assert (np.abs(gaps - side) < 1).all()


@pytest.mark.parametrize(("least", "tiles"), [(0.0, 16), (0.25, 1), (0.26, 0)])
def test_a_share_that_equals_the_limit_is_enough(least: float, tiles: int) -> None:
    pixels = np.zeros((8, 8), bool)
    pixels[0, 0] = True  # a quarter of the first tile
    assert len(tile_grid((64, 64), 1.0, 16.0, Region(pixels, 8.0), least)) == tiles


def test_a_draw_follows_from_the_seed_and_the_slide() -> None:
    coords = np.arange(200, dtype=np.int32).reshape(100, 2)
    drawn = draw_tiles(coords, 30, 7, "slide-1")
    np.testing.assert_array_equal(drawn, draw_tiles(coords, 30, 7, "slide-1"))
    assert len(np.unique(drawn[:, 0])) == 30
    assert (np.diff(drawn[:, 0]) > 0).all()
    assert not np.array_equal(drawn, draw_tiles(coords, 30, 8, "slide-1"))
    assert not np.array_equal(drawn, draw_tiles(coords, 30, 7, "slide-2"))
    assert draw_tiles(coords, 100, 7, "slide-1") is coords


def test_every_tile_is_drawn_equally_often() -> None:
    coords = np.arange(20, dtype=np.int32).reshape(10, 2)
    drawn = np.concatenate(
        [draw_tiles(coords, 3, seed, "s")[:, 0] // 2 for seed in range(2000)]
    )
    counts = np.bincount(drawn, minlength=10)
    # 600 each expected, standard deviation 20.5.
    assert np.abs(counts - 600).max() < 5 * 20.5
