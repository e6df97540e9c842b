"""`fedcox slides simulate, segment, tile, inspect, train-unet`, as a user types them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedcox.slides.simulated_slides import SimulatedSlides, simulate_slides
from tests.cli.conftest import Run
from tests.slides.drawn import cut_in_half, intersection_over_union
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def simulated(tmp_path: Path) -> SimulatedSlides:
    return simulate_slides(tmp_path / "simulated", 3, 1, 0, size_px=512)


def test_from_nothing_to_tiles(fedcox: Run, tmp_path: Path) -> None:
    out, work = tmp_path / "simulated", tmp_path / "work"
    words = ["slides", "simulate", "--out", out, "--patients", "3", "--centers", "1"]
    made = fedcox(*words, "--size-px", "512")
    assert made.status == 0
    assert "3 simulated slides of 3 simulated patients" in made.out
    assert sorted(path.name for path in out.iterdir()) == [
        "patients.csv",
        "planted.json",
        "slides",
        "slides.csv",
    ]
    assert fedcox(*words).status == 2
    assert fedcox("slides", "segment", out / "slides.csv", "--work", work).status == 0
    grid = ["--tile-um", "64", "--mpp", "1"]
    tiled = fedcox("slides", "tile", out / "slides.csv", "--work", work, *grid)
    assert tiled.status == 0
    assert "3 made" in tiled.out
    again = fedcox("slides", "tile", out / "slides.csv", "--work", work, *grid)
    assert "0 made, 3 kept from before" in again.out
    other = fedcox("slides", "tile", out / "slides.csv", "--work", work, *grid, "--seed", "1")
    assert "3 anew, since settings changed" in other.out
    assert other.err.count("made anew, since its file was of other settings") == 3


def test_some_slides_fail_and_the_status_says_so(
    fedcox: Run, simulated: SimulatedSlides, tmp_path: Path
) -> None:
    slides = sorted((simulated.manifest.parent / "slides").iterdir())
    cut_in_half(slides[0])
    work = tmp_path / "work"
    ended = fedcox("slides", "segment", simulated.manifest, "--work", work)
    assert ended.status == 1
    assert "2 made" in ended.out
    assert f"{slides[0].stem}: failed." in ended.err
    with (work / "failures.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["slide_id"], row["step"]) == (slides[0].stem, "segment")
    assert "truncated" in row["reason"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["segment", "nowhere.csv", "--work", "w"], "nowhere.csv"),
        (["tile", "nowhere.csv", "--work", "w", "--mpp", "0.6"], "186.667 pixels"),
        (["segment", "x.csv", "--work", "w", "--unet", "none.safetensors"], "train-unet"),
        (
            ["segment", "x.csv", "--work", "w", "--unet", "u", "--mask-um", "4"],
            "would change nothing",
        ),
        (["inspect", "nowhere.svs"], "There is no file"),
        (["train-unet", "nowhere", "--masks", "m", "--out", "u.safetensors"], "not a folder"),
        (
            ["simulate", "--out", "s", "--patients", "2", "--centers", "3"],
            "cannot be in 3 centers",
        ),
    ],
)
def test_wrong_input_is_told_and_nothing_is_written(
    fedcox: Run,
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = fedcox("slides", *words)
    assert ended.status == 2
    assert told in ended.err
    assert list(tmp_path.iterdir()) == []


def test_inspect_tells_every_kind_of_file(
    fedcox: Run, simulated: SimulatedSlides, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    fedcox("slides", "segment", simulated.manifest, "--work", work)
    fedcox(
        "slides", "tile", simulated.manifest, "--work", work, "--tile-um", "64", "--mpp", "1"
    )
    slide = next((simulated.manifest.parent / "slides").iterdir())
    for file, told in (
        (slide, ["slide", "512 × 512", "0.51 × 0.51 mm", "generic-tiff"]),
        (work / "masks" / f"{slide.stem}.png", ["tissue mask", "64 × 64", "mm²", "otsu"]),
        (work / "tiles" / f"{slide.stem}.h5", ["no features yet", "64 micrometres"]),
    ):
        shown = fedcox("slides", "inspect", file)
        assert shown.status == 0
        for words in told:
            assert words in shown.out
    (tmp_path / "notes.txt").write_text("hello")
    assert fedcox("slides", "inspect", tmp_path / "notes.txt").status == 2
    (tmp_path / "cut.safetensors").write_bytes(b"\xff" * 20)
    cut = fedcox("slides", "inspect", tmp_path / "cut.safetensors")
    assert cut.status == 2
    assert "not a safetensors file" in cut.err


def test_a_unet_is_trained_and_used(
    fedcox: Run, simulated: SimulatedSlides, tmp_path: Path
) -> None:
    work, unet = tmp_path / "work", tmp_path / "unet.safetensors"
    fedcox("slides", "segment", simulated.manifest, "--work", work, "--overviews")
    train = ["slides", "train-unet", work / "overviews", "--masks", work / "masks"]
    trained = fedcox(*train, "--out", unet, "--steps", "30")
    assert trained.status == 0
    assert "trained on 3 pictures" in trained.out
    assert fedcox(*train, "--out", unet).status == 2
    assert "fedcox-unet-1" in fedcox("slides", "inspect", unet).out
    other = tmp_path / "other"
    used = fedcox("slides", "segment", simulated.manifest, "--work", other, "--unet", unet)
    assert used.status == 0
    for file in (other / "masks").glob("*.png"):
        found, taught = (
            np.asarray(Image.open(at / file.name)) for at in (other / "masks", work / "masks")
        )
        assert intersection_over_union(found > 0, taught > 0) > 0.9
    assert "unet" in fedcox("slides", "inspect", file).out
