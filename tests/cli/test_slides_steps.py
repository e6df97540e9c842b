"""The steps from slides to features: their order, what is shown on the way, who is left out."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from fedcox.cli.slides.progress import (
    duration_text,
    event_text,
    progress_text,
    step_display,
    tell_outcome,
)
from fedcox.slides.simulated_slides import SimulatedSlides, simulate_slides
from fedcox.slides.step import Outcome, StepOutcome, StepProgress
from tests.cli.conftest import Run
from tests.feature_folder import FeatureFolder, feature_folder
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


def at(outcome: Outcome, done: int = 3, tiles: int = 1200, reason: str = "") -> StepProgress:
    return StepProgress("s1", outcome, done, 20, 1, tiles, 4.0, reason)


def test_slides_tiles_per_second_and_time_left() -> None:
    # Two of this run in 4 s, 17 to go: 34 s.
    assert progress_text(at("made")) == "3/20 slides, 1,200 tiles, 300 tiles/s, 0:00:34 left"
    assert progress_text(at("kept", done=1, tiles=0)) == "1/20 slides"
    assert progress_text(at("made", done=20, tiles=0)) == "20/20 slides"


def test_only_what_somebody_must_know_is_a_line_of_its_own() -> None:
    assert event_text(at("failed", reason="It is cut off.")) == "s1: failed. It is cut off."
    assert "other settings" in str(event_text(at("redone")))
    assert "another process" in str(event_text(at("busy")))
    assert event_text(at("made")) is None
    assert event_text(at("kept")) is None


def test_where_nobody_looks_there_are_plain_lines_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("fedcox.cli.slides.progress.time.monotonic", lambda: now[0])
    with step_display("laying tiles") as watch:
        watch(at("made"))
        now[0] = 11.0
        watch(at("made", done=4))
        watch(at("made", done=5))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("laying tiles: 4/20 slides, 1,200 tiles")


def test_on_a_terminal_failures_stay_to_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with step_display("laying tiles") as watch:
        watch(at("failed", reason="It is [cut] off."))
    assert "s1: failed. It is [cut] off." in capsys.readouterr().err


def test_failures_end_with_status_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = StepOutcome(("a",), ("b",), ("c", "d"), ("e",), {}, 5000, 3725.0)
    tell_outcome(outcome, tmp_path, "tiles")
    assert capsys.readouterr().out == (
        f"{tmp_path / 'tiles'}: slides 2 made (1 anew, since settings changed), 2 kept from "
        "before, 1 left to another process, 0 failed; 5,000 tiles; 1:02:05.\n"
    )
    with pytest.raises(typer.Exit) as stopped:
        tell_outcome(StepOutcome(failed={"a": "why"}), tmp_path, "tiles")
    assert stopped.value.exit_code == 1
    assert "failures.csv" in capsys.readouterr().out


def test_durations() -> None:
    assert [duration_text(s) for s in (0.2, 59.6, 3600)] == ["0:00:00", "0:01:00", "1:00:00"]


@pytest.fixture
def folder(tmp_path: Path) -> FeatureFolder:
    return feature_folder(tmp_path)


def named(path: Path) -> list[tuple[str, str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["slide_id"], row["step"], row["reason"]) for row in csv.DictReader(file)]


def test_a_training_names_patients_without_a_slide(folder: FeatureFolder, fedcox: Run) -> None:
    model, told = folder.home / "model", folder.home / "model-failures.csv"
    whole = folder.patients.read_text(encoding="utf-8")
    folder.patients.write_text(f"{whole}\nghost,100,1", encoding="utf-8")
    (folder.features / "s1a.h5").unlink()
    ended = fedcox(*folder.train("--out", model))
    assert ended.status == 1
    assert "s1a: left out." in ended.err
    assert "2 patient(s) left out." in ended.err
    assert str(told) in ended.err
    (slide, step, _), *patients = named(told)
    assert (slide, step) == ("s1a", "train")
    assert patients == [
        ("", "train", f"Patient '{name}': No slide that can be used.")
        for name in ("p1", "ghost")
    ]
    assert (model / "network.safetensors").exists()
    # A patient without a slide is enough, and is no longer told once nobody is left out.
    without = "\n".join(line for line in whole.splitlines() if not line.startswith("p1,"))
    folder.patients.write_text(f"{without}\nghost,100,1", encoding="utf-8")
    slides = folder.manifest.read_text(encoding="utf-8").splitlines()
    folder.manifest.write_text(
        "\n".join(line for line in slides if not line.startswith("s1a")), encoding="utf-8"
    )
    assert fedcox(*folder.train("--out", model, "--overwrite")).status == 1
    assert named(told) == [("", "train", "Patient 'ghost': No slide that can be used.")]
    folder.patients.write_text(without, encoding="utf-8")
    assert fedcox(*folder.train("--out", model, "--overwrite")).status == 0
    assert not told.exists()


def test_predictions_name_patients_without_a_slide(folder: FeatureFolder, fedcox: Run) -> None:
    model, out = folder.home / "model", folder.home / "scores.csv"
    told = folder.home / "scores-failures.csv"
    assert fedcox(*folder.train("--out", model)).status == 0
    for name in ("s0b", "s2a"):  # p0 has another slide, p2 has none
        (folder.features / f"{name}.h5").rename(folder.home / f"{name}.h5")
    ended = fedcox(*folder.predict(model, "--out", out))
    assert ended.status == 1
    assert "1 patient(s) left out." in ended.err
    assert [row[:2] for row in named(told)] == [
        ("s0b", "predict"),
        ("s2a", "predict"),
        ("", "predict"),
    ]
    assert named(told)[-1][2] == "Patient 'p2': No slide that can be scored."
    for name in ("s0b", "s2a"):
        (folder.home / f"{name}.h5").rename(folder.features / f"{name}.h5")
    assert fedcox(*folder.predict(model, "--out", out, "--overwrite")).status == 0
    assert not told.exists()
