"""A slide is read in micrometres, whatever its levels; bad files are told apart."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image

import fedcox.files.reading as memory
from fedcox.errors import SlideError
from fedcox.slides.simulated_slides import write_pyramid
from fedcox.slides.slide import is_cut_off, open_slide, tells_mpp
from tests.slides.drawn import cut_in_half, drawn_slide

Order: TypeAlias = Literal["<", ">"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("slide") / "drawn.tiff"
    drawn_slide(file)
    return file


def test_openslide_sees_the_pyramid_and_its_resolution(path: Path) -> None:
    with open_slide(path) as slide:
        assert slide.mpp == pytest.approx(1.0, rel=1e-6)
        assert slide.size == (1024, 1024)
        assert slide.level_downsamples == (1.0, 2.0, 4.0)
        assert slide.vendor == "generic-tiff"
        assert slide.associated == ()


def test_the_pixels_are_those_that_were_drawn(tmp_path: Path) -> None:
    drawn = drawn_slide(tmp_path / "one.tiff", seed=3)
    with open_slide(tmp_path / "one.tiff") as slide:
        read = slide.read_tile(0, 0, 1024, 1.0)
    # JPEG halves the colour resolution; brightness is nearly exact.
    apart = np.abs(read.astype(float).mean(2) - drawn.pixels.astype(float).mean(2))
    assert apart.mean() < 3.0
    assert np.abs(read.mean((0, 1)) - drawn.pixels.mean((0, 1))).max() < 1.0


@pytest.mark.parametrize(("mpp", "level"), [(1.0, 0), (2.0, 1), (4.0, 2)])
def test_a_tile_at_a_levels_resolution_is_the_levels_own_pixels(
    path: Path, mpp: float, level: int
) -> None:
    with open_slide(path) as slide, openslide.OpenSlide(path) as itself:
        tile = slide.read_tile(256, 128, 64, mpp)
        region = itself.read_region((256, 128), level, (64, 64)).convert("RGB")
    np.testing.assert_array_equal(tile, np.asarray(region))


def test_a_tile_between_levels_covers_the_same_micrometres(path: Path) -> None:
    with open_slide(path) as slide:
        tile = slide.read_tile(320, 320, 80, 3.2)  # 256 micrometres, from level 1
        fine = slide.read_tile(320, 320, 256, 1.0)
    expected = Image.fromarray(fine).resize((80, 80), Image.Resampling.BOX)
    apart = np.abs(tile.astype(float) - np.asarray(expected).astype(float))
    assert apart.mean() < 6.0
    assert np.abs(tile.mean((0, 1)) - fine.mean((0, 1))).max() < 2.0


def test_glass_beyond_the_slide_is_white(path: Path) -> None:
    with open_slide(path) as slide:
        assert (slide.read_tile(1024, 1024, 32, 1.0) == 255).all()


@pytest.mark.parametrize("mpp", [4.0, 8.0, 7.3])
def test_an_overview_in_blocks_is_the_overview_in_one(
    path: Path, mpp: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_slide(path) as slide:
        whole = slide.overview(mpp)
        monkeypatch.setattr("fedcox.slides.slide._BLOCK", 96)
        pieces = slide.overview(mpp)
    assert whole.shape == (int(np.ceil(1024 / mpp)),) * 2 + (3,)
    assert np.abs(whole.astype(int) - pieces).max() <= 1


def test_a_thumbnail_is_as_large_as_asked_and_never_blown_up(path: Path) -> None:
    with open_slide(path) as slide:
        assert slide.thumbnail(100).shape == (100, 100, 3)
        assert slide.thumbnail(5000).shape == (1024, 1024, 3)


def test_a_slide_without_resolution_names_the_option(tmp_path: Path) -> None:
    file = tmp_path / "untold.tiff"
    drawn_slide(file, size_px=256, told=False)
    with pytest.raises(SlideError, match="--assume-mpp"), open_slide(file):
        pass
    assert not tells_mpp(file)
    with open_slide(file, assume_mpp=0.25) as slide:
        assert slide.mpp == 0.25


def test_a_slides_own_resolution_wins_over_the_assumed(path: Path) -> None:
    with open_slide(path, assume_mpp=0.25) as slide:
        assert slide.mpp == pytest.approx(1.0)


def test_the_resolution_of_a_screen_is_no_resolution(tmp_path: Path) -> None:
    file = tmp_path / "screen.tiff"
    write_pyramid(file, np.full((256, 256, 3), 200, np.uint8), 352.8)
    with pytest.raises(SlideError, match=r"352\.8.*no scanner's.*\n.*--assume-mpp"):
        open_slide(file).__enter__()


def test_pixels_that_are_not_square_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "oblong.tiff"
    pixels = np.full((256, 256, 3), 200, np.uint8)
    tifffile.imwrite(
        file,
        pixels,
        tile=(128, 128),
        photometric="rgb",
        resolution=(1e4, 2e4),
        resolutionunit="CENTIMETER",
    )
    with pytest.raises(SlideError, match="not square"):
        open_slide(file).__enter__()


def test_files_that_are_no_slides(tmp_path: Path) -> None:
    file = tmp_path / "notes.svs"
    file.write_text("not a slide")
    with pytest.raises(SlideError, match="not a slide that OpenSlide can read"):
        open_slide(file).__enter__()
    with pytest.raises(SlideError, match="There is no file"):
        open_slide(tmp_path / "missing.svs").__enter__()


def test_a_slide_cut_in_half_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cut.tiff"
    drawn_slide(file)
    cut_in_half(file)
    with pytest.raises(SlideError, match="truncated"):
        open_slide(file).__enter__()


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", get_args(Order))
def test_only_whole_tiff_files_are_whole(tmp_path: Path, big: bool, order: Order) -> None:
    file = tmp_path / "image.tiff"
    pixels = np.random.default_rng(0).integers(0, 255, (300, 200, 3), dtype=np.uint8)
    with tifffile.TiffWriter(file, bigtiff=big, byteorder=order) as tiff:
        tiff.write(pixels, tile=(64, 64), photometric="rgb")
        tiff.write(pixels[::2, ::2], rowsperstrip=10, photometric="rgb")
    assert not is_cut_off(file)
    content = file.read_bytes()
    for kept in (9, len(content) // 3, len(content) - 1):
        file.write_bytes(content[:kept])
        assert is_cut_off(file)


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    file = tmp_path / "slide.tiff"
    drawn_slide(file, size_px=256)
    monkeypatch.setattr("fedcox.slides.slide.is_cut_off", refuse)
    with pytest.raises(SlideError, match="Permission denied"):
        open_slide(file).__enter__()


def test_a_directory_of_impossible_length_is_beyond_the_end(tmp_path: Path) -> None:
    file = tmp_path / "x.tiff"
    file.write_bytes(b"II+\0\x08\0\0\0" + (16).to_bytes(8, "little") + b"\xff" * 8)
    assert is_cut_off(file)


def test_pixels_beyond_the_memory_are_refused_unread(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = tmp_path / "wide.tiff"
    content = bytearray(path.read_bytes())
    for tag in (322, 323):  # width and length of a tile: 256 in the file
        entry = struct.pack("<HHII", tag, 4, 1, 256)
        assert entry in content
        content = content.replace(entry, struct.pack("<HHII", tag, 4, 1, 2**24))
    wide.write_bytes(content)
    with pytest.raises(SlideError, match=r"declares 1,048,576\.0 GiB"), open_slide(wide):
        pass
    with open_slide(path) as slide:
        monkeypatch.setattr(memory, "machine_bytes", lambda: 512 * 512 * 3)
        assert slide.overview(4.0).shape == (256, 256, 3)
        with pytest.raises(SlideError, match="pixels are too many"):
            slide.overview(1.0)


def test_what_is_no_tiff_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x89PNG")
    assert not is_cut_off(tmp_path / "x")
