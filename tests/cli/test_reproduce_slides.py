"""`fedcox reproduce slides`, from pyramids on disk to the page, at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedcox.paper.slide_pipeline as slide_embedding
import fedcox.paper.slides as paper_slides
from fedcox.paper.slides import SimulatedSizes
from fedcox.slides.encoder import AbstractEncoder, AbstractPending, Ready, Tiles
from tests.cli.conftest import Run

TINY = SimulatedSizes(
    patients=21, size_px=384, runs=1, centers=2, effect=10.0, reduced=4, seed=3
)


class Colours(AbstractEncoder):
    """A stand-in for ResNet-50: means and spreads of the colours, and their products."""

    name, sha256, precision = "colours", "c" * 64, "float32"

    def submit(self, tiles: Tiles) -> AbstractPending:
        own = tiles.reshape(len(tiles), -1, 3) / np.float32(255)
        found = [own.mean(axis=1), own.std(axis=1), own.max(axis=1)]
        return Ready(np.concatenate(found, axis=1).astype(np.float32))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_slides, "QUICK", TINY)
    monkeypatch.setattr(paper_slides, "FOLDS", 2)
    monkeypatch.setattr(slide_embedding.EncoderChoice, "load", lambda self: Colours())
    monkeypatch.setattr("os.cpu_count", lambda: 1)


@pytest.mark.usefixtures("small")
def test_the_whole_way_is_gone_on_simulated_slides(fedcox: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("reproduce", "slides", "--quick", "--out", run)
    ended = fedcox(*words)
    assert ended.status == 0, ended.err
    assert "Simulated slides" in ended.out
    assert {path.name for path in run.iterdir()} == {
        "simulated",
        "work",
        "heatmap",
        "slides.json",
        "slides.html",
    }
    told = json.loads((run / "slides.json").read_text(encoding="utf-8"))
    assert told["simulated"] is True
    assert told["command"].startswith("fedcox reproduce slides --quick")
    assert told["patients"] == 21
    assert told["settings"]["simulated"]["effect"] == 10.0
    assert len(told["rows"]) == 2 * 2
    assert told["settings"]["encoder"] == "colours"
    # Planted tiles are darker: what the tiles were planted for is found.
    assert told["mean_auc"] > 0.7
    page = (run / "slides.html").read_text(encoding="utf-8")
    for claim in told["claims"]:
        assert claim["measured"] in page
    assert "Everything on this page is simulated" in page
    again = fedcox(*words)
    assert again.status == 2
    assert "--resume" in again.err
    assert fedcox(*words, "--resume").status == 0
    repeated = json.loads((run / "slides.json").read_text(encoding="utf-8"))
    for name in ("comparison", "rankings", "mean_auc"):
        parts = [json.dumps(record[name]) for record in (told, repeated)]
        if name != "comparison":  # which holds seconds
            assert parts[0] == parts[1]


@pytest.mark.usefixtures("small")
def test_slides_of_other_sizes_are_not_taken_for_these(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run" / "simulated"
    folder.mkdir(parents=True)
    (folder / "slides.csv").write_text("slide_id\n", encoding="utf-8")
    (folder / "sizes.json").write_text("{}", encoding="utf-8")
    words = ("reproduce", "slides", "--quick", "--out", tmp_path / "run")
    ended = fedcox(*words, "--resume")
    assert ended.status == 2
    assert "other sizes" in ended.err
    (tmp_path / "run" / "mine.txt").write_text("keep", encoding="utf-8")
    kept = fedcox(*words, "--overwrite")
    assert kept.status == 2
    assert (tmp_path / "run" / "mine.txt").exists()


@pytest.mark.usefixtures("small")
def test_ones_own_slides_take_the_same_way(fedcox: Run, tmp_path: Path) -> None:
    from fedcox.slides.simulated_slides import simulate_slides

    made = simulate_slides(tmp_path / "own", 22, 2, seed=4, size_px=800, mpp=0.5)
    words = ("reproduce", "slides", "--quick", "--slides", made.manifest)
    rest = ("--patients", made.patients, "--weights", tmp_path / "resnet50.pth")
    # Nine colours cannot be reduced to 256.
    refused = fedcox(*words, *rest, "--out", tmp_path / "run")
    assert refused.status == 2
    assert "256" in refused.err
    unclear = fedcox(*words, "--out", tmp_path / "other")
    assert unclear.status == 2
    assert "--patients" in unclear.err
    assert "--weights" in unclear.err
    wrong = fedcox("reproduce", "slides", "--cancer", "KIRC", "--out", tmp_path / "other")
    assert wrong.status == 2
    assert "goes with --slides" in wrong.err
