from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedcox.paper.appendix_a as appendix_a
import fedcox.paper.synthetic as paper_synthetic
import fedcox.paper.tcga as paper_tcga
from fedcox.data.synthetic import CensoringBound
from fedcox.evaluation.problem import PaperPatients
from fedcox.evaluation.scheme import Recipe
from fedcox.paper.reproduction import Reproduction
from tests.cli.conftest import Once, Run
from tests.data.tcga import made_up

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
