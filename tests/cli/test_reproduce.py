"""None"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedcox.paper.appendix_a as appendix_a
import fedcox.paper.compression as paper_compression
import fedcox.paper.privacy as paper_privacy
import fedcox.paper.slides as paper_slides
import fedcox.paper.slides_run as slides_run
import fedcox.paper.synthetic as paper_synthetic
import fedcox.paper.tcga.experiment as paper_tcga
from fedcox.data.synthetic import CensoringBound
from fedcox.evaluation.problem import PaperPatients
from fedcox.evaluation.scheme import Recipe
from fedcox.paper.compression import CompressionStudy, Sizes
from fedcox.paper.reproduction import Reproduction, stored_study
from fedcox.paper.slide_pipeline import EncoderChoice
from fedcox.paper.slides import SimulatedSizes
from fedcox.slides.encoder import AbstractEncoder, AbstractPending, Ready, Tiles
from tests.cli.conftest import Once, Run
from tests.paper.tcga import made_up
from tests.paper.test_privacy import example

SYNTHETIC = ("reproduce", "synthetic", "--quick", "--workers", "1")


def tiny(*, quick: bool, bound: CensoringBound) -> Reproduction:
    """The quick reproduction of very few patients and batches."""
    whole = _of_the_paper(quick=quick, bound=bound)
    recipe = Recipe(censored_interval="exclude", batches=5, cell_batches=5)
    panels = []
    for panel in whole.panels:
        problem = panel.experiment.problem
        assert isinstance(problem, PaperPatients)
        small = replace(problem, patients=150, columns=2)
        experiment = replace(panel.experiment, problem=small, recipe=recipe, seeds=(0,))
        panels.append(replace(panel, experiment=experiment))
    return replace(whole, panels=tuple(panels))


_of_the_paper = paper_synthetic.synthetic


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_synthetic, "synthetic", tiny)


@pytest.mark.usefixtures("small")
def test_a_reproduction_writes_rows_summary_and_page(fedcox: Run, tmp_path: Path) -> None:
    ended = fedcox(*SYNTHETIC, "--out", tmp_path / "run")
    assert ended.status == 0
    assert "The paper's conclusions" in ended.out
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"uniform.jsonl", "time.jsonl", "reproduction.json", "reproduction.html"}
    record = json.loads((tmp_path / "run" / "reproduction.json").read_text(encoding="utf-8"))
    assert record["panels"]["time"]["patients"]["split"] == "time"
    assert len(record["claims"]) == 4
    page = (tmp_path / "run" / "reproduction.html").read_text(encoding="utf-8")
    for claim in record["claims"]:
        assert claim["measured"] in page


@pytest.mark.usefixtures("small")
def test_a_reproduction_is_taken_up_where_it_stopped(
    fedcox: Run, once: Once, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    once("synthetic", (*SYNTHETIC, "--out", run), run)
    whole = (run / "time.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (run / "time.jsonl").write_bytes(b"".join(lines[:4]))
    refused = fedcox(*SYNTHETIC, "--out", run)
    assert refused.status == 2
    assert "--resume" in refused.err
    assert fedcox(*SYNTHETIC, "--out", run, "--resume").status == 0
    again = (run / "time.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:4] == lines[:4]
    assert [_index(line) for line in again[1:]] == [_index(line) for line in lines[1:]]


def _index(line: bytes) -> tuple[str, float]:
    row = json.loads(line)
    return row["scheme"], row["c_index"]


@pytest.mark.usefixtures("small")
def test_overwrite_begins_again_and_spares_what_is_not_ours(
    fedcox: Run, once: Once, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    once("synthetic", (*SYNTHETIC, "--out", run), run)
    (run / "notes.txt").write_text("mine", encoding="utf-8")
    refused = fedcox(*SYNTHETIC, "--out", run, "--overwrite")
    assert refused.status == 2
    assert "notes.txt" in refused.err
    (run / "notes.txt").unlink()
    both = fedcox(*SYNTHETIC, "--out", run, "--overwrite", "--resume")
    assert both.status == 2
    assert fedcox(*SYNTHETIC, "--out", run, "--overwrite").status == 0


@pytest.mark.parametrize("name", ["communication", "appendix-a"])
def test_the_small_studies_write_numbers_and_a_page(
    fedcox: Run, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The numbers of Appendix A are those of tests/paper/test_appendix_a.py.
    fits = np.linspace((1.2, 0.9), (1.0, 0.1), len(appendix_a.FITS))
    monkeypatch.setattr(appendix_a, "distances", lambda cohort: fits)
    ended = fedcox("reproduce", name, "--quick", "--out", tmp_path / "run")
    assert ended.status == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {f"{name}.json", f"{name}.html"}
    assert json.loads((tmp_path / "run" / f"{name}.json").read_text(encoding="utf-8"))


def test_tables_of_tcga_become_panels(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = made_up.patients(90)
    recipe = replace(paper_tcga.RECIPE, batches=5, cell_batches=5, cell_batch_size=50)
    monkeypatch.setattr(paper_tcga, "QUICK", recipe)
    ended = fedcox(
        *("reproduce", "tcga", "--quick", "--workers", "1", "--out", tmp_path / "run"),
        *("--outcome", made_up.outcome_csv(tmp_path, frame)),
        *("--regions", made_up.regions_csv(tmp_path)),
        *("--clinical", f"made={made_up.tcgabiolinks_2022(tmp_path, frame)}"),
    )
    assert ended.status == 0
    record = json.loads((tmp_path / "run" / "reproduction.json").read_text(encoding="utf-8"))
    assert {found["evaluation"] for found in record["comparisons"]} == {"folds", "left out"}
    assert {claim["statement"].split(",")[0] for claim in record["claims"]} == {"MADE"}
    assert "no significant difference" in ended.out


def test_everything_wrong_with_the_tables_is_told_at_once(fedcox: Run, tmp_path: Path) -> None:
    frame = made_up.patients()
    other = tmp_path / "other.csv"
    other.write_text("name,colour\na,red\n", encoding="utf-8")
    ended = fedcox(
        *("reproduce", "tcga", "--quick", "--out", tmp_path / "run"),
        *("--outcome", made_up.outcome_csv(tmp_path, frame)),
        *("--regions", made_up.regions_csv(tmp_path)),
        *("--clinical", f"COAD={other}", "--clinical", f"KIRC={tmp_path / 'absent.csv'}"),
    )
    assert ended.status == 2
    assert "other.csv" in ended.err
    assert "absent.csv" in ended.err
    assert not any((tmp_path / "run").glob("*"))


def test_clinical_tables_are_named_by_cancer_once(fedcox: Run, tmp_path: Path) -> None:
    ended = fedcox(
        *("reproduce", "tcga", "--out", tmp_path / "run", "--regions", "regions.csv"),
        *("--clinical", "BRCA", "--clinical", "COAD=a.csv", "--clinical", "coad=b.csv"),
    )
    assert ended.status == 2
    assert "'BRCA' is not of the form CANCER=FILE" in ended.err
    assert "COAD is given twice" in ended.err
    assert not (tmp_path / "run").exists()


def test_it_writes_numbers_and_a_page(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_privacy, "run_privacy", lambda quick, progress: example())
    ended = fedcox("reproduce", "privacy", "--quick", "--out", tmp_path / "run")
    assert ended.status == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"privacy.json", "privacy.html"}
    record = json.loads((tmp_path / "run" / "privacy.json").read_text(encoding="utf-8"))
    assert len(record["claims"]) == 5


def test_the_study_of_compression_writes_numbers_and_a_page(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_compression, "QUICK", Sizes(300, 2, (2, 3), (3, 6), (2, 4)))
    command = ("reproduce", "compression", "--quick", "--out", tmp_path / "run")
    ended = fedcox(*command)
    assert ended.status == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"compression.json", "compression.html"}
    record = json.loads((tmp_path / "run" / "compression.json").read_text(encoding="utf-8"))
    assert stored_study(CompressionStudy, record).columns == (2, 3)
    again = fedcox(*command)
    assert again.status == 2
    assert "--overwrite" in again.err


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
def small_slides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slides_run, "QUICK", TINY)
    monkeypatch.setattr(paper_slides, "FOLDS", 2)
    monkeypatch.setattr(EncoderChoice, "load", lambda self: Colours())
    monkeypatch.setattr("os.cpu_count", lambda: 1)


@pytest.mark.usefixtures("small_slides")
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


@pytest.mark.usefixtures("small_slides")
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


@pytest.mark.usefixtures("small_slides")
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
