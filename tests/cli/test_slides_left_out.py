"""Who is not in a model, or not in its predictions, is named, and the exit status says so."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.feature_folder import FeatureFolder, feature_folder


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
