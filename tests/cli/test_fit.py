from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import OutputError
from fedcox.reports.run_folder import FILES, write_run
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from fedcox.study.study import Study
from tests.cli.conftest import STUDY, Files, Run, invented

#: Section 3 of the design: whoever reads fit.json may count on these.
CONTRACT = {
    "version",
    "study",
    "centers",
    "grid",
    "link",
    "ratio_name",
    "coefficients",
    "baseline",
    "log_likelihood",
    "converged",
    "rounds",
    "bytes_up",
    "bytes_down",
    "concordance",
}
ROWS = {
    "centers": {"name", "patients", "events"},
    "coefficients": {"name", "coef", "se", "z", "p", "ratio", "ratio_low", "ratio_high"},
    "baseline": {"interval_end", "alpha", "at_risk", "events"},
}


def strict_json(path: Path) -> dict[str, Any]:
    """Parse as the standard says: no NaN, no Infinity, no key twice."""

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    text = path.read_text(encoding="utf-8")
    record = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    assert isinstance(record, dict)
    return record


def test_a_run_is_four_files_and_nothing_else(fitted_files: Files) -> None:
    assert sorted(path.name for path in fitted_files.run.iterdir()) == sorted(FILES)
    assert fitted_files.listing() == {
        "study.toml",
        "all.csv",
        "run",
        *(f"run/{name}" for name in FILES),
    }


def test_fit_json_keeps_the_contract(fitted_files: Files) -> None:
    record = strict_json(fitted_files.run / "fit.json")
    assert record.keys() >= CONTRACT
    for table, columns in ROWS.items():
        assert record[table]
        for row in record[table]:
            assert row.keys() >= columns
    assert record["grid"].keys() == {"edges", "resolution", "every_event_time"}
    assert record["link"] == "log"
    size = sum(row["coef"] is not None for row in record["coefficients"])
    assert np.shape(record["covariance"]) == (size, size)
    assert record["ratio_name"] == "hazard ratio"
    assert record["converged"] is True
    assert [row["interval_end"] for row in record["baseline"]] == record["grid"]["edges"]


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_fit_json_says_what_the_python_fit_says_to_the_digits_of_its_errors(
    fitted_files: Files,
) -> None:
    study = Study.read(fitted_files.study)
    federation = InProcess.from_frame(study, invented(), center="hospital")
    ours = released(fit(study, federation))
    record = strict_json(fitted_files.run / "fit.json")
    for row, coefficient in zip(record["coefficients"], ours.coefficients, strict=True):
        for key in ROWS["coefficients"]:
            assert row[key] == getattr(coefficient, key)
    for key in ("log_likelihood", "rounds", "bytes_up", "bytes_down", "concordance"):
        assert record[key] == getattr(ours, key)
    assert record["study"] == study.to_dict()
    assert record["study_source"] == STUDY
    table = invented().groupby("hospital")["died"].agg(["size", "sum"])
    assert {row["name"]: [row["patients"], row["events"]] for row in record["centers"]} == {
        str(name): [int(row["size"]), int(row["sum"])] for name, row in table.iterrows()
    }


def test_summary_csv_is_the_summary(fitted_files: Files) -> None:
    fitted = FittedStudy.read(fitted_files.run / "fit.json")
    summary = pd.read_csv(fitted_files.run / "summary.csv", index_col="covariate")
    pd.testing.assert_frame_equal(summary, fitted.summary, rtol=1e-14)
    assert list(summary.index) == ["age", "stage_II", "stage_III"]
    assert list(summary.columns)[:5] == [
        "coef",
        "exp(coef)",
        "se(coef)",
        "coef lower 95%",
        "coef upper 95%",
    ]


def test_the_ledger_adds_up_to_the_fits_bytes_and_rounds(fitted_files: Files) -> None:
    record = strict_json(fitted_files.run / "fit.json")
    lines = (fitted_files.run / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["center"] for row in rows} == {"north", "south", "west"}
    assert max(row["round"] for row in rows) == record["rounds"]
    assert min(row["round"] for row in rows) == 1
    assert sum(row["bytes_up"] for row in rows) == record["bytes_up"]
    assert sum(row["bytes_down"] for row in rows) == record["bytes_down"]
    assert all(row["bytes_up"] == 8 * row["numbers_up"] for row in rows)


def test_the_table_is_shown(files: Files, fedcox: Run) -> None:
    ended = fedcox(*files.words())
    assert ended.status == 0
    for words in ("invented", "hazard ratio", "stage_III", "95 % interval", "report.html"):
        assert words in ended.out


def test_warnings_are_shown_and_kept(files: Files, fedcox: Run) -> None:
    text = STUDY.replace("[grid]", '[model]\nlink = "cloglog"\n\n[grid]')
    files.study.write_text(text, encoding="utf-8")
    ended = fedcox(*files.words())
    assert ended.status == 0
    assert "1 of 9 intervals" in ended.out
    assert "everyone at risk has the event" in ended.out
    record = strict_json(files.run / "fit.json")
    names = [row["name"] for row in record["warnings"]]
    assert names == [
        "EmptyIntervalsWarning",
        "EventsOnlyIntervalsWarning",
        "CoarseTimeWarning",
    ]
    unknown = [row for row in record["baseline"] if row["alpha"] is None]
    assert [row["events"] for row in unknown if row["hazard"] == 0] == [0]
    assert [row["events"] == row["at_risk"] for row in unknown if row["hazard"] == 1] == [True]


def test_a_real_process_fits_and_says_so(files: Files) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fedcox.cli.main", *map(str, files.words())],
        capture_output=True,
        text=True,
        check=False,
        cwd=files.folder,
    )
    assert ended.returncode == 0, ended.stderr
    assert "hazard ratio" in ended.stdout
    assert (files.run / "report.html").stat().st_size > 10_000


# Where the results go


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_that_is_there_is_kept_unless_told_otherwise(
    fitted_files: Files, fedcox: Run
) -> None:
    before = content(fitted_files.run)
    ended = fedcox(*fitted_files.words())
    assert ended.status == 2
    assert "exists already" in ended.err
    assert "--overwrite" in ended.err
    assert content(fitted_files.run) == before


def test_overwrite_replaces_a_run(fitted_files: Files, fedcox: Run) -> None:
    before = content(fitted_files.run)
    fitted_files.study.write_text(STUDY + '[model]\nlink = "logit"\n', encoding="utf-8")
    ended = fedcox(*fitted_files.words(), "--overwrite")
    assert ended.status == 0
    assert content(fitted_files.run).keys() == before.keys()
    assert strict_json(fitted_files.run / "fit.json")["link"] == "logit"
    assert {path.name for path in fitted_files.folder.iterdir()} == {
        "study.toml",
        "all.csv",
        "run",
    }


def test_overwrite_keeps_the_old_run_when_the_new_fit_fails(
    fitted_files: Files, fedcox: Run
) -> None:
    before = content(fitted_files.run)
    fitted_files.data.write_text("", encoding="utf-8")
    assert fedcox(*fitted_files.words(), "--overwrite").status == 2
    assert content(fitted_files.run) == before


@pytest.mark.parametrize("foreign", ["thesis.docx", "sub/notes.txt", ".hidden"])
def test_overwrite_never_removes_other_work(
    foreign: str, fitted_files: Files, fedcox: Run
) -> None:
    path = fitted_files.run / foreign
    path.parent.mkdir(exist_ok=True)
    path.write_text("years of work", encoding="utf-8")
    before = fitted_files.listing()
    ended = fedcox(*fitted_files.words(), "--overwrite")
    assert ended.status == 2
    assert foreign.split("/")[0] in ended.err
    assert fitted_files.listing() == before
    assert path.read_text(encoding="utf-8") == "years of work"


def test_a_folder_in_a_files_name_is_not_taken_for_ours(files: Files, fedcox: Run) -> None:
    (files.run / "fit.json").mkdir(parents=True)
    assert fedcox(*files.words(), "--overwrite").status == 2
    assert (files.run / "fit.json").is_dir()


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_file_in_the_way_is_kept(overwrite: list[str], files: Files, fedcox: Run) -> None:
    files.run.write_text("mine", encoding="utf-8")
    ended = fedcox(*files.words(), *overwrite)
    assert ended.status == 2
    assert "is not a folder" in ended.err
    assert files.run.read_text(encoding="utf-8") == "mine"


def test_a_link_is_not_followed_by_overwrite(fitted_files: Files, fedcox: Run) -> None:
    link = fitted_files.folder / "link"
    link.symlink_to(fitted_files.run)
    ended = fedcox(*fitted_files.words()[:-1], link, "--overwrite")
    assert ended.status == 2
    assert link.is_symlink()
    assert len(content(fitted_files.run)) == 4


def test_parents_of_the_output_folder_are_made(files: Files, fedcox: Run) -> None:
    out = files.folder / "results" / "2026" / "run"
    assert fedcox(*files.words()[:-1], out).status == 0
    assert len(content(out)) == 4


def test_a_slash_at_the_end_changes_nothing(files: Files, fedcox: Run) -> None:
    assert fedcox(*files.words()[:-1], f"{files.run}/").status == 0
    assert len(content(files.run)) == 4


@pytest.mark.parametrize("where", [".", "./", "../here", ".."])
def test_the_folder_one_is_in_is_never_replaced(
    where: str, files: Files, fedcox: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = files.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    words = [*files.words()[:-1], where]
    for refused in (fedcox(*words), fedcox(*words, "--overwrite")):
        assert refused.status == 2
        assert "such as --out run" in refused.err or "--overwrite" in refused.err
    assert Path.cwd() == here
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("where", ["run", "./run", "../here/run", "run/../run"])
def test_relative_names_lead_to_the_folder_they_name(
    where: str, files: Files, fedcox: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = files.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    if where == "run/../run":
        (here / "run").mkdir()
    assert fedcox(*files.words()[:-1], where, "--overwrite").status == 0
    assert len(content(here / "run")) == 4
    assert [path.name for path in here.iterdir()] == ["run"]


def test_a_place_that_cannot_be_written_is_named_and_left_as_it_was(
    files: Files, fedcox: Run
) -> None:
    (files.folder / "file").write_text("mine", encoding="utf-8")
    ended = fedcox(*files.words()[:-1], files.folder / "file" / "run")
    assert ended.status == 2
    assert "Cannot write the folder" in ended.err


def test_a_failure_while_writing_leaves_nothing(
    fitted_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = FittedStudy.read(fitted_files.run / "fit.json")
    before = fitted_files.listing()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedcox.reports.run_folder.write_report", full_disk)
    for folder, overwrite in ((fitted_files.run, True), (fitted_files.folder / "other", False)):
        with pytest.raises(OutputError, match="No space left"):
            write_run(fitted, folder, overwrite=overwrite)
    assert fitted_files.listing() == before


def test_many_centers_and_a_fine_grid_fit_too(files: Files, fedcox: Run) -> None:
    table = invented(400).assign(hospital=lambda frame: np.arange(len(frame)) % 90)
    table.to_csv(files.data, index=False)
    files.study.write_text(STUDY.replace("width = 100", 'times = "events"'), encoding="utf-8")
    assert fedcox(*files.words()).status == 0
    record = strict_json(files.run / "fit.json")
    assert len(record["centers"]) == 90
    pieces = [row for row in record["baseline"] if row["alpha"] is not None]
    assert len(pieces) == len(set(table.loc[table["died"] == 1, "days"]))
    assert record["grid"]["every_event_time"] is True


def test_times_that_may_be_dates_are_a_warning_of_the_run(files: Files, fedcox: Run) -> None:
    files.study.write_text(STUDY.replace('unit = "days"\n', ""), encoding="utf-8")
    frame = invented()
    frame["days"] += 13_717
    frame.to_csv(files.data, index=False)
    ended = fedcox(*files.words())
    assert ended.status == 0
    assert "Times that may be dates" in ended.out
    (row, *_) = strict_json(files.run / "fit.json")["warnings"]
    assert row["name"] == "DoubtfulTimesWarning"
    assert "units of time" in (files.run / "report.html").read_text(encoding="utf-8")


def test_filled_cells_are_in_fit_json_by_center_and_column(files: Files, fedcox: Run) -> None:
    files.study.write_text(STUDY + '[model]\nmissing = "mean"\n', encoding="utf-8")
    frame = invented().astype({"age": object, "stage": object})
    frame.loc[[0, 3, 4], "age"] = None
    frame.loc[[4], "stage"] = None
    frame.to_csv(files.data, index=False)
    ended = fedcox(*files.words())
    assert ended.status == 0
    assert "4 cells without a value filled with the mean" in ended.out
    record = strict_json(files.run / "fit.json")
    assert [row["filled"] for row in record["centers"]] == [
        {"age": 2},
        {"age": 1, "stage": 1},
        {},
    ]
    (row, *_) = record["warnings"]
    assert row["name"] == "FilledCellsWarning"
    assert "3 cells of column 'age' and 1 cell of column 'stage'" in row["text"]
    assert "filled with the mean" in (files.run / "report.html").read_text(encoding="utf-8")
