from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines.datasets import load_lung

from fedcox.evaluation.result import read_results
from fedcox.evaluation.schemes import SCHEMES
from fedcox.evaluation.study_experiment import FILES
from tests.cli.conftest import STUDY, Files, Once, Run, invented
from tests.cli.test_fit import content, strict_json

LUNG = """\
[outcome]
time = "time"
event = "status"
event_value = 1
censored_value = 0

[covariates]
age = { type = "number" }
sex = { type = "number" }
"ph.ecog" = { type = "number" }

[grid]
width = 60

[model]
missing = "drop"
link = "logit"
ridge = 0.25
"""


def words(files: Files, *more: str | Path) -> list[str | Path]:
    """A `fedcox evaluate` that works, in this process."""
    given: list[str | Path] = ["evaluate", files.study, "--data", files.data]
    given += ["--center-column", "hospital", "--workers", "1", "--out", files.run]
    return [*given, "--schemes", "POOL,N-FL-EXACT,LOCAL", *more]


@pytest.fixture
def evaluated(files: Files, once: Once) -> Files:
    once("evaluated", words(files), files.run)
    return files


def rows_without_seconds(run: Path) -> list[dict[str, Any]]:
    lines = (run / "folds.jsonl").read_text(encoding="utf-8").splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


def test_an_evaluation_is_three_files_and_nothing_else(evaluated: Files) -> None:
    assert sorted(path.name for path in evaluated.run.iterdir()) == sorted(FILES)
    names = {"study.toml", "all.csv", "run", *(f"run/{name}" for name in FILES)}
    assert evaluated.listing() == names


def test_every_scheme_has_a_line_and_a_difference_to_the_first(
    files: Files, fedcox: Run
) -> None:
    ended = fedcox(*words(files, "--folds", "4", "--left-out", "--runs", "2"))
    assert ended.status == 0
    assert "invented: folds inside centers, 2 runs" in ended.out
    assert "invented: one center left out, 2 runs" in ended.out
    assert "corrected resampled t" in ended.out
    assert "paired t over the centers" in ended.out
    assert "vs POOL" in ended.out
    assert "evaluation.html" in ended.out
    record = strict_json(files.run / "evaluation.json")
    folds, left_out = record["comparisons"]
    _, rows = read_results(files.run / "folds.jsonl")
    assert len(rows) == record["rows"] == 3 * 2 * (4 + 3)
    for comparison, test_sets in ((folds, 8), (left_out, 6)):
        assert comparison["test_sets"] == test_sets
        for summary in comparison["schemes"]:
            own = [
                row.c_index
                for row in rows
                if (row.scheme, row.evaluation) == (summary["scheme"], comparison["evaluation"])
                and row.c_index is not None
            ]
            assert summary["mean"] == pytest.approx(np.mean(own), rel=1e-13)
            assert f"{summary['mean']:.3f} ± {summary['sd']:.3f}" in ended.out
    assert "│ N-FL-EXACT │" in ended.out
    assert "│ POOL *     │" in ended.out
    assert "The 6 test sets are 3 centers in 2 runs" in " ".join(ended.out.split())


def test_the_studys_choices_go_to_the_schemes(files: Files, fedcox: Run) -> None:
    model = '[model]\nlink = "logit"\nridge = 0.5\ncensored_interval = "half"\n'
    files.study.write_text(STUDY + "horizon = 700\n" + model, encoding="utf-8")
    assert fedcox(*words(files)).status == 0
    recipe = strict_json(files.run / "evaluation.json")["recipe"]
    wanted = {"width": 100, "horizon": 700, "link": "logit", "ridge": 0.5}
    assert wanted.items() <= recipe.items()
    assert recipe["censored_interval"] == "half"


def test_files_of_centers_and_a_column_of_centers_are_the_same_evaluation(
    evaluated: Files, fedcox: Run
) -> None:
    given = []
    for name, part in invented().groupby("hospital"):
        part.to_csv(evaluated.folder / f"{name}.csv", index=False)
        given += ["--center", f"{name}={evaluated.folder / f'{name}.csv'}"]
    other = evaluated.folder / "other"
    more = ["--workers", "1", "--out", other, "--schemes", "POOL,N-FL-EXACT,LOCAL"]
    assert fedcox("evaluate", evaluated.study, *given, *more).status == 0
    one, two = rows_without_seconds(evaluated.run)[1:], rows_without_seconds(other)[1:]
    for left, right in zip(one, two, strict=True):
        assert left == right


def test_the_default_schemes_exist_and_run(files: Files, fedcox: Run) -> None:
    given = [
        word for word in words(files) if word not in ("--schemes", "POOL,N-FL-EXACT,LOCAL")
    ]
    ended = fedcox(*given, "--folds", "2")
    assert ended.status == 0
    assert {row.scheme for row in read_results(files.run / "folds.jsonl")[1]} <= SCHEMES.keys()


def lung(folder: Path) -> tuple[Path, Path]:
    study, data = folder / "lung.toml", folder / "lung.csv"
    study.write_text(LUNG, encoding="utf-8")
    load_lung().to_csv(data, index=False)
    return study, data


def test_lung_by_institution_needs_its_small_ones_left_out_and_says_how(
    tmp_path: Path, fedcox: Run
) -> None:
    study, data = lung(tmp_path)
    run = tmp_path / "run"
    given = ["evaluate", study, "--data", data, "--center-column", "inst", "--out", run]
    given += ["--schemes", "pool, n-fl-exact", "--workers", "1"]
    ended = fedcox(*given)
    assert ended.status == 2
    assert not run.exists()
    assert "fewer patients than there are folds" in ended.err
    (advice,) = [line for line in ended.err.splitlines() if "--without" in line]
    without = advice[advice.index("--without") :].split()
    ended = fedcox(*given, *without)
    assert ended.status == 0
    header, rows = read_results(run / "folds.jsonl")
    patients = load_lung()[["inst", "time", "status", "age", "sex", "ph.ecog"]].dropna()
    sizes = patients["inst"].astype(int).astype(str).value_counts()
    kept = {name: int(size) for name, size in sizes.items() if size >= 5}
    assert header["patients"]["centers"] == kept
    assert sum(row.patients for row in rows if row.scheme == "POOL") == sum(kept.values())
    assert "name no center" in ended.out
    assert "left out, as the study says: missing values" in ended.out


def test_a_center_without_deaths_has_no_index_and_that_is_said(
    tmp_path: Path, fedcox: Run
) -> None:
    study, data = lung(tmp_path)
    patients = load_lung()
    patients.loc[patients["inst"] == 33, "status"] = 0
    patients.to_csv(data, index=False)
    given = ["evaluate", study, "--data", data, "--center-column", "inst", "--left-out"]
    ended = fedcox(*given, "--schemes", "POOL", "--workers", "1", "--out", tmp_path / "run")
    assert ended.status == 0
    _, rows = read_results(tmp_path / "run" / "folds.jsonl")
    silent = [row for row in rows if row.c_index is None]
    assert [row.center for row in silent] == ["33"]
    assert silent[0].notes == ("The test set has no event, so there is no c-index.",)
    assert f"{len(rows) - 1} of {len(rows)}" in ended.out
    assert "POOL, on 1 test set: The test set has no event" in ended.out
    (summary,) = strict_json(tmp_path / "run" / "evaluation.json")["comparisons"][0]["schemes"]
    known = [row.c_index for row in rows if row.c_index is not None]
    assert summary["mean"] == pytest.approx(np.mean(known), rel=1e-13)


# Going on, beginning again


def cut_short(run: Path, rows: int) -> None:
    """As if the run had been stopped after some rows, in the middle of a line."""
    lines = (run / "folds.jsonl").read_bytes().splitlines(keepends=True)
    (run / "folds.jsonl").write_bytes(b"".join(lines[: rows + 1]) + lines[rows + 1][:20])
    for name in ("evaluation.json", "evaluation.html"):
        (run / name).unlink()


def test_a_stopped_evaluation_goes_on(evaluated: Files, fedcox: Run) -> None:
    whole = (evaluated.run / "folds.jsonl").read_bytes().splitlines()
    before = rows_without_seconds(evaluated.run)
    summary = strict_json(evaluated.run / "evaluation.json")
    cut_short(evaluated.run, 6)
    ended = fedcox(*words(evaluated))
    assert ended.status == 2
    assert "with 6 of 15 rows" in ended.err
    assert "--resume" in ended.err
    assert fedcox(*words(evaluated, "--resume")).status == 0
    assert rows_without_seconds(evaluated.run) == before
    assert (evaluated.run / "folds.jsonl").read_bytes().splitlines()[:7] == whole[:7]
    again = strict_json(evaluated.run / "evaluation.json")
    assert again["comparisons"][0]["differences"] == summary["comparisons"][0]["differences"]


def test_resume_begins_where_nothing_is_and_repeats_what_is_done(
    files: Files, fedcox: Run
) -> None:
    assert fedcox(*words(files, "--resume")).status == 0
    rows = (files.run / "folds.jsonl").read_bytes()
    assert fedcox(*words(files, "--resume")).status == 0
    assert (files.run / "folds.jsonl").read_bytes() == rows


def test_resume_never_mixes_two_experiments(evaluated: Files, fedcox: Run) -> None:
    before = content(evaluated.run)
    ended = fedcox(*words(evaluated, "--resume", "--runs", "3"))
    assert ended.status == 2
    assert "another experiment" in ended.err
    assert "seeds: the file has [0], and [0, 1, 2] was asked for" in ended.err
    patients = invented()
    patients["age"] += np.arange(60) == 3
    patients.to_csv(evaluated.data, index=False)
    ended = fedcox(*words(evaluated, "--resume"))
    assert ended.status == 2
    assert "The patients are not the same." in ended.err
    assert "sha256" not in ended.err
    assert "begin again with --overwrite" in ended.err
    assert content(evaluated.run) == before


def test_overwrite_begins_again(evaluated: Files, fedcox: Run) -> None:
    assert fedcox(*words(evaluated, "--overwrite", "--folds", "3")).status == 0
    assert len(rows_without_seconds(evaluated.run)) == 1 + 9
    ended = fedcox(*words(evaluated, "--overwrite", "--resume"))
    assert ended.status == 2
    assert "exclude each other" in ended.err


@pytest.mark.parametrize("how", ["--overwrite", "--resume"])
def test_other_work_in_the_folder_is_never_touched(
    evaluated: Files, fedcox: Run, how: str
) -> None:
    (evaluated.run / "thesis.docx").write_text("years", encoding="utf-8")
    before = content(evaluated.run)
    ended = fedcox(*words(evaluated, how))
    assert ended.status == 2
    assert "thesis.docx" in ended.err
    assert content(evaluated.run) == before


def test_a_folder_of_other_things_is_refused_without_advice_that_fails(
    files: Files, fedcox: Run
) -> None:
    files.run.mkdir()
    (files.run / "folds.jsonl").write_text("mine\n", encoding="utf-8")
    for more in ([], ["--resume"], ["--overwrite"]):
        ended = fedcox(*words(files, *more))
        assert ended.status == 2
        assert "holds what no evaluation wrote: 'folds.jsonl'" in ended.err
        assert "--resume" not in ended.err
        assert "--overwrite" not in ended.err
        assert (files.run / "folds.jsonl").read_text(encoding="utf-8") == "mine\n"


def test_an_empty_folder_will_do(files: Files, fedcox: Run) -> None:
    files.run.mkdir()
    assert fedcox(*words(files)).status == 0
    (files.run / "folds.jsonl").unlink()
    ended = fedcox(*words(files))
    assert ended.status == 2
    assert "holds an evaluation" in ended.err


def test_the_command_to_repeat_it_begins_from_nothing(
    evaluated: Files, fedcox: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for how in ("--resume", "--overwrite"):
        given = [str(word) for word in words(evaluated, how)]
        monkeypatch.setattr(sys, "argv", ["fedcox", *given])
        assert fedcox(*given).status == 0
        command = shlex.join(["fedcox", *(word for word in given if word != how)])
        assert strict_json(evaluated.run / "evaluation.json")["command"] == command
        page = (evaluated.run / "evaluation.html").read_text(encoding="utf-8")
        assert how not in page


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(files: Files, fedcox: Run) -> None:
    invented(3000).to_csv(files.data, index=False)
    more = ["--runs", "200", "--workers", "2", "--overwrite"]
    given = [str(word) for word in words(files)]
    given[given.index("--workers") : given.index("--workers") + 2] = more
    process = subprocess.Popen(
        [sys.executable, "-m", "fedcox.cli.main", *given],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        file = files.run / "folds.jsonl"
        deadline = time.monotonic() + 60
        while not file.exists() or file.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    (line,) = said.splitlines()
    _, rows = read_results(file)
    assert line.startswith(f"Stopped. {len(rows):,} of 3,000 rows are kept; to go on: fedcox ")
    assert line.endswith("--resume")
    assert "--overwrite" not in line
    assert sorted(path.name for path in files.run.iterdir()) == ["folds.jsonl"]


@pytest.mark.parametrize(
    "grid", ["", "[grid]\npieces = 4\n", "[grid]\nedges = [200, 500, 900]\n"]
)
def test_a_study_with_exact_time_is_evaluated_as_it_is(
    files: Files, fedcox: Run, grid: str
) -> None:
    files.study.write_text(STUDY[: STUDY.index("[grid]")] + grid, encoding="utf-8")
    given = words(files, "--folds", "2")
    named = given.index("--schemes")
    own = [*given[:named], *given[named + 2 :]]
    ended = fedcox(*own)
    assert ended.status == 0, ended.err
    header, rows = read_results(files.run / "folds.jsonl")
    assert header["schemes"] == ["POOL", "N-FL-EXACT", "PH-FL-NEWTON"]
    assert header["recipe"]["link"] == "log"
    indices = {row.scheme: row.c_index for row in rows if row.fold == 1}
    assert indices["PH-FL-NEWTON"] == pytest.approx(indices["POOL"], abs=0.03)
    assert fedcox(*own, "--resume").status == 0
    beside = fedcox(*given, "--schemes", "PH-FL-NEWTON,DT-FL-NEWTON", "--overwrite")
    assert beside.status == 0, beside.err
    assert "DT-FL groups time" in " ".join(beside.out.split())


def test_more_pieces_than_training_patients_have_events_is_told_with_the_result(
    files: Files, fedcox: Run
) -> None:
    text = STUDY.replace("width = 100", "pieces = 30")
    files.study.write_text(text, encoding="utf-8")
    ended = fedcox(*words(files, "--schemes", "POOL,PH-FL-NEWTON", "--folds", "2"))
    assert ended.status == 0, ended.err
    assert "pieces = 30 is more than there are events" in " ".join(ended.out.split())


# Bad input


def test_a_scheme_that_cannot_run_is_told_before_anything_is_written(
    files: Files, fedcox: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    before = files.listing()
    ended = fedcox(*words(files, "--schemes", "POOL,BOOST", "--folds", "21"))
    assert ended.status == 2
    assert "pip install 'fedcox[experiments]'" in ended.err
    assert "fewer patients than there are folds" in ended.err
    assert files.listing() == before


def test_an_unknown_scheme_is_answered_with_all_schemes_and_what_they_are(
    files: Files, fedcox: Run
) -> None:
    before = files.listing()
    ended = fedcox(*words(files, "--schemes", "POOL,DTFL,NONSENSE"))
    assert ended.status == 2
    assert "There is no scheme 'DTFL'. Did you mean 'DT-FL'?" in ended.err
    assert "There is no scheme 'NONSENSE'." in ended.err
    for scheme in SCHEMES.values():
        assert f"{scheme.name}: {scheme.summary}." in ended.err
    assert files.listing() == before


def test_all_faults_are_told_at_once_and_nothing_is_written(files: Files, fedcox: Run) -> None:
    patients = invented(40)
    patients["hospital"] = ["tiny", "tiny", *patients["hospital"][2:]]
    patients["died"] = 0
    patients.to_csv(files.data, index=False)
    before = files.listing()
    ended = fedcox(*words(files, "--schemes", "POOL,FOO", "--folds", "3", "--without", "east"))
    assert ended.status == 2
    for told in (
        "'FOO'",
        "tiny (2 patients)",
        "--without tiny",
        "no center 'east'",
        "No center has an event",
    ):
        assert told in ended.err
    assert files.listing() == before


def test_faults_of_the_file_come_with_those_of_the_schemes(files: Files, fedcox: Run) -> None:
    patients = invented()
    patients["age"] = patients["age"].astype(object)
    patients.loc[3, "age"] = "old"
    patients.to_csv(files.data, index=False)
    before = files.listing()
    ended = fedcox(*words(files, "--schemes", "FOO"))
    assert ended.status == 2
    assert "is not a number" in ended.err
    assert "'FOO'" in ended.err
    assert files.listing() == before


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--folds", "1"], "two are the least"),
        (["--folds", "21"], "fewer patients than there are folds"),
        (["--schemes", "POOL,POOL"], "POOL is named 2 times"),
        (["--schemes", ""], "There is no scheme ''"),
        (["--without", "north", "--without", "south", "--left-out"], "two are the least"),
        (["--without", "north", "--without", "south", "--without", "west"], "No center"),
        (["--runs", "0"], "--runs"),
        (["--workers", "0"], "--workers"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_ends_with_status_2_and_nothing_written(
    files: Files, fedcox: Run, more: list[str], told: str
) -> None:
    before = files.listing()
    ended = fedcox(*words(files, *more))
    assert ended.status == 2
    assert told in ended.err
    assert files.listing() == before


def test_a_real_process_with_two_workers_gives_the_same_rows(evaluated: Files) -> None:
    other = evaluated.folder / "other"
    given = [str(word) for word in words(evaluated)]
    given[given.index(str(evaluated.run))] = str(other)
    given[given.index("--workers") + 1] = "2"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "fedcox.cli.main", *given],
        capture_output=True,
        text=True,
        check=False,
        cwd=evaluated.folder,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert rows_without_seconds(other) == rows_without_seconds(evaluated.run)


def test_one_center_is_enough_for_folds(files: Files, fedcox: Run) -> None:
    given = [word for word in words(files) if word not in ("--center-column", "hospital")]
    ended = fedcox(*given)
    assert ended.status == 0
    (note,) = strict_json(files.run / "evaluation.json")["notes"]
    assert note.startswith("All patients are one center, since no --center-column is named")
    assert "All patients are one center" in ended.out
    assert note in (files.run / "evaluation.html").read_text(encoding="utf-8")
    frame = pd.DataFrame(rows_without_seconds(files.run)[1:])
    pooled, naive = (frame[frame["scheme"] == name] for name in ("POOL", "N-FL-EXACT"))
    assert pooled["c_index"].tolist() == naive["c_index"].tolist()
