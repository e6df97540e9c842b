"""A user's mistake: what was found, what to do, exit status 2, and nothing written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import STUDY, Files, Run, invented

Change = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Mistake:
    """Something wrong with the study, the table or the file, and what must be said about it."""

    said: tuple[str, ...]
    table: Change = lambda frame: frame
    study: Callable[[str], str] = lambda text: text
    content: bytes | None = None


def cell(column: str, value: object, rows: slice | int = 3) -> Change:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.astype({column: object})
        last = rows if isinstance(rows, int) else rows.stop
        first = rows if isinstance(rows, int) else rows.start
        changed.loc[first:last, column] = value  # type: ignore[call-overload]
        return changed

    return change


def line(text: str, instead: str) -> Callable[[str], str]:
    def change(study: str) -> str:
        assert text in study
        return study.replace(text, instead)

    return change


THERE = "The columns there are 'patient', 'hospital'"

#: What a hospital's own `fedcox check` finds as well.
IN_THE_FILE = {
    "a column is missing": Mistake(
        ("Column 'age' is missing", THERE), table=lambda frame: frame.drop(columns="age")
    ),
    "a column is misspelt": Mistake(
        ("Column 'stage' is missing", "Did you mean 'Stage_'", THERE),
        table=lambda frame: frame.rename(columns={"stage": "Stage_"}),
    ),
    "the time column is missing": Mistake(
        ("Column 'days' is missing", THERE), table=lambda frame: frame.drop(columns="days")
    ),
    "the event column is missing": Mistake(
        ("Column 'died' is missing", THERE), table=lambda frame: frame.drop(columns="died")
    ),
    "a number is a word": Mistake(
        ("Column 'age': 1 cell is not a number (line 5)",), table=cell("age", "QXZold")
    ),
    "a decimal comma": Mistake(("Column 'age'", "decimal comma"), table=cell("age", "63,5")),
    "an infinite number": Mistake(("Column 'age'", "infinite"), table=cell("age", "inf")),
    "a number out of range": Mistake(
        ("Column 'age'", "outside the study's range", "max = 120"), table=cell("age", 777)
    ),
    "an unknown level": Mistake(
        ("Column 'stage': 1 patient has a level", "(line 5)", "'I', 'II' and 'III'"),
        table=cell("stage", "QXZ"),
    ),
    "a missing covariate": Mistake(
        ("Column 'age': 1 patient has no value", 'missing = "drop"', 'missing = "mean"'),
        table=cell("age", None),
    ),
    "a negative time": Mistake(
        ("Column 'days': 2 patients have a negative follow-up time (lines 5, 6)",),
        table=cell("days", -77, slice(3, 4)),
    ),
    "a missing time": Mistake(
        ("Column 'days': 1 patient has no follow-up time (line 5)",), table=cell("days", None)
    ),
    "a zero time": Mistake(
        (
            "Column 'days': 1 patient has a follow-up time of zero (line 5)",
            'zero_times = "drop"',
            'zero_times = "first_interval"',
        ),
        table=cell("days", 0),
    ),
    "a time that is no number": Mistake(
        ("Column 'days': 1 cell is not a number",), table=cell("days", "QXZ")
    ),
    "a third event value": Mistake(
        ("Column 'died': 1 patient has a value that is neither", "event_value = 1"),
        table=cell("died", 2),
    ),
    "a missing event": Mistake(
        ("Column 'died': 1 patient has no value",), table=cell("died", None)
    ),
    "a repeated patient": Mistake(
        ("Column 'patient': 2 rows share their patient id", "one row per patient"),
        table=cell("patient", "p000"),
    ),
    "a patient without an id": Mistake(
        ("Column 'patient': 1 patient without an id",), table=cell("patient", None)
    ),
    "a header and nobody": Mistake(
        ("is empty", "no patients"), table=lambda frame: frame.head(0)
    ),
    "an empty file": Mistake(("is empty",), content=b""),
    "blank lines only": Mistake(("is empty",), content=b"\n\n \n"),
    "no UTF-8": Mistake(
        ("not UTF-8 text (line 2)", "encoding UTF-8"),
        content="patient,age\np1,Sch\xe4fer\n".encode("latin-1"),
    ),
    "UTF-16": Mistake(("UTF-16", "encoding UTF-8"), content="patient,age\n".encode("utf-16")),
    "a short row": Mistake(
        ("cannot be taken apart", "1 row has more or fewer cells"),
        content=b"patient,hospital,age,stage,days,died\np1,north,60,I,100,1\np2,north\n",
    ),
    "an open quotation mark": Mistake(
        ("cannot be taken apart", "quotation mark"),
        content=b'patient,hospital,age,stage,days,died\np1,"north,60,I,100,1\np2,north,60,I,3,1\n',
    ),
}
IN_THE_STUDY = {
    "an unknown key": Mistake(
        ("[grid] widht: unknown key", "Did you mean 'width'"),
        study=line("width = 100", "widht = 100"),
    ),
    "an unknown table": Mistake(
        ("[colour]: unknown table", "The tables are"), study=lambda text: text + "[colour]\n"
    ),
    "an unknown link": Mistake(
        ("[model] link", "cloglog", "logit"),
        study=lambda text: text + '[model]\nlink = "probit"\n',
    ),
    "an unknown method": Mistake(
        ("[solver] method", "newton"),
        study=lambda text: text + '[solver]\nmethod = "sgd"\n',
    ),
    "a negative width": Mistake(
        ("[grid] width", "a number above 0 is needed"),
        study=line("width = 100", "width = -100"),
    ),
    "a width in the wrong unit": Mistake(
        ("more than 10,000", "larger width", "another unit than the width"),
        study=line("width = 100", "width = 1e-6"),
    ),
    "edges that do not increase": Mistake(
        ("[grid] edges", "they must increase"), study=line("width = 100", "edges = [200, 100]")
    ),
    "edges before every event": Mistake(
        ("No center has an event up to the horizon",),
        study=line("width = 100", "edges = [1]"),
    ),
    "more pieces than events": Mistake(
        ("pieces = 900 is more than there are events", "Give fewer pieces"),
        study=line("width = 100", "pieces = 900"),
    ),
    "pieces of grouped time": Mistake(
        ('[grid] pieces: goes with link = "log"', "width = 30"),
        study=lambda text: text.replace("width = 100", "pieces = 9").replace(
            "[grid]", '[model]\nlink = "logit"\n\n[grid]'
        ),
    ),
    "a smooth baseline of one event time": Mistake(
        ("needs events at 5 times or more", "smaller df"),
        study=line("[grid]", '[model]\nbaseline = "spline"\n\n[grid]'),
        table=lambda frame: frame.assign(days=7),
    ),
    "both width and times": Mistake(
        ("[grid]: width and times are given",),
        study=line("width = 100", 'width = 100\ntimes = "events"'),
    ),
    "no covariates": Mistake(
        ("covariates",),
        study=lambda text: "\n".join(
            row for row in text.splitlines() if not row.startswith(("age", "stage"))
        ),
    ),
    "a reference that is no level": Mistake(
        ("[covariates] stage reference: 'IV' is not among the levels",),
        study=line('reference = "I"', 'reference = "IV"'),
    ),
    "no TOML": Mistake(("not valid TOML",), study=lambda text: text + "width 100\n"),
}
ABOUT_THE_PATIENTS = {
    "no events": Mistake(
        ("No center has an event", "event_value"), table=lambda frame: frame.assign(died=0)
    ),
    "one patient": Mistake(
        ("1 patient", "at least two"), table=lambda frame: frame[frame["died"] == 1].head(1)
    ),
    "the horizon lies before the first event": Mistake(
        ("No center has an event up to the horizon of 3", "Choose a later horizon"),
        study=line("width = 100", "width = 100\nhorizon = 3"),
        table=lambda frame: frame[frame["days"] > 5],
    ),
    "the horizon lies before the first of the event times": Mistake(
        ("No center has an event up to the horizon of 3", "Choose a later horizon"),
        study=line("width = 100", 'times = "events"\nhorizon = 3'),
        table=lambda frame: frame[frame["days"] > 5],
    ),
    "everyone has the event at once": Mistake(
        ("nothing to compare", "narrower intervals"),
        study=line("[grid]", '[model]\nlink = "cloglog"\n\n[grid]'),
        table=lambda frame: frame.assign(died=1, days=7),
    ),
    "no center column": Mistake(
        ("Column 'hospital' is missing", "The columns there are 'patient', 'age'"),
        table=lambda frame: frame.drop(columns="hospital"),
    ),
    "a patient without a center": Mistake(
        ("Column 'hospital': 1 patient has no center (line 5)", 'missing = "drop"'),
        table=cell("hospital", None),
    ),
    "a code of astronomic size": Mistake(
        ("Column 'age' has values beyond 1e150", "missing value"),
        study=line(
            'age = { type = "number", min = 0, max = 120 }', 'age = { type = "number" }'
        ),
        table=cell("age", "1e300"),
    ),
    "everyone dropped": Mistake(
        ("No patients are left after dropping 60 for missing values",),
        table=lambda frame: frame.assign(age=""),
        study=lambda text: text + '[model]\nmissing = "drop"\n',
    ),
}
MISTAKES = {**IN_THE_FILE, **IN_THE_STUDY, **ABOUT_THE_PATIENTS}


def write(files: Files, mistake: Mistake) -> None:
    files.study.write_text(mistake.study(STUDY), encoding="utf-8")
    if mistake.content is None:
        mistake.table(invented()).to_csv(files.data, index=False)
    else:
        files.data.write_bytes(mistake.content)


def assert_told(told: str, said: tuple[str, ...]) -> None:
    assert told.lstrip().startswith("Error: ")
    for words in said:
        assert words in told
    for private in ("QXZ", "777", "-77", "p000", "Schäfer"):
        assert private not in told


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_and_nothing_is_written(name: str, files: Files, fedcox: Run) -> None:
    mistake = MISTAKES[name]
    write(files, mistake)
    before = files.listing()
    ended = fedcox(*files.words())
    assert ended.status == 2
    assert ended.out == ""
    assert_told(ended.err, mistake.said)
    assert files.listing() == before


@pytest.mark.parametrize("name", IN_THE_FILE)
def test_a_hospital_finds_its_own_mistakes_with_check(
    name: str, files: Files, fedcox: Run
) -> None:
    mistake = MISTAKES[name]
    write(files, mistake)
    ended = fedcox("check", files.study, "--data", files.data)
    assert ended.status == 2
    assert ended.out == ""
    assert_told(ended.err, mistake.said)


@pytest.mark.parametrize("name", IN_THE_FILE)
def test_one_faulty_center_of_two_is_named(name: str, files: Files, fedcox: Run) -> None:
    mistake = MISTAKES[name]
    write(files, mistake)
    good = files.folder / "good.csv"
    invented(seed=1).to_csv(good, index=False)
    before = files.listing()
    centers = ["--center", f"Aa={good}", "--center", f"Bb={files.data}"]
    ended = fedcox("fit", files.study, *centers, "--out", files.run)
    assert ended.status == 2
    assert_told(ended.err, mistake.said)
    assert str(files.data) in ended.err
    assert str(good) not in ended.err
    assert files.listing() == before


def test_all_faults_of_all_centers_are_told_at_once(files: Files, fedcox: Run) -> None:
    write(files, IN_THE_FILE["an unknown level"])
    other = files.folder / "other.csv"
    table = cell("days", 0)(cell("age", "old", 7)(invented(seed=1)))
    table.to_csv(other, index=False)
    centers = ["--center", f"A={files.data}", "--center", f"B={other}"]
    ended = fedcox("fit", files.study, *centers, "--out", files.run)
    assert ended.status == 2
    for words in ("2 of 2 centers", "'stage': 1 patient", "'days': 1 patient", "'age': 1 cell"):
        assert words in ended.err
    assert not files.run.exists()


def test_all_faults_of_a_study_are_told_at_once(files: Files, fedcox: Run) -> None:
    text = STUDY.replace("width = 100", 'width = "wide"').replace('time = "days"', "")
    files.study.write_text(text + '[model]\nlink = "probit"\nridge = -1\n', encoding="utf-8")
    ended = fedcox(*files.words())
    assert ended.status == 2
    for words in ("[grid] width", "[outcome] time", "[model] link", "[model] ridge"):
        assert words in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ("No patients were given", "--data FILE", "--center NAME=FILE")),
        (["--center", "A=DATA", "--center", "A=DATA"], ("Center 'A' is given twice",)),
        (["--center", "A=DATA", "--center", "B=DATA"], ("is given for two centers",)),
        (["--center", "DATA"], ("not of the form NAME=FILE",)),
        (["--center", "=DATA"], ("not of the form NAME=FILE",)),
        (["--center", "A="], ("not of the form NAME=FILE",)),
        (["--data", "DATA", "--center", "A=DATA"], ("either --data or --center",)),
        (
            ["--center", "A=DATA", "--center-column", "hospital"],
            ("--center-column belongs to --data",),
        ),
        (["--data", "nowhere.csv"], ("nowhere.csv", "there is no such file")),
        (["--data", "STUDY"], ("this kind of file is not read", ".csv", ".parquet")),
        (["--data", "."], ("this is a folder",)),
    ],
)
def test_unclear_files_are_refused(
    words: list[str], said: tuple[str, ...], files: Files, fedcox: Run
) -> None:
    paths = {"DATA": str(files.data), "STUDY": str(files.study)}
    for short, path in paths.items():
        words = [word.replace(short, path) for word in words]
    before = files.listing()
    ended = fedcox("fit", files.study, *words, "--out", files.run)
    assert ended.status == 2
    assert_told(ended.err, said)
    assert files.listing() == before


@pytest.mark.parametrize(
    ("study", "said"), [("nowhere.toml", "no such study file"), (".", "this is a folder")]
)
def test_a_study_that_is_not_there_is_named(
    study: str, said: str, files: Files, fedcox: Run
) -> None:
    ended = fedcox("fit", study, "--data", files.data, "--out", files.run)
    assert ended.status == 2
    assert said in ended.err
    assert not files.run.exists()


def test_a_study_that_is_not_utf_8_is_named(files: Files, fedcox: Run) -> None:
    files.study.write_bytes(STUDY.replace("invented", "Krebsf\xe4lle").encode("latin-1"))
    ended = fedcox(*files.words())
    assert ended.status == 2
    assert "not UTF-8" in ended.err


def test_a_damaged_parquet_file_is_named(files: Files, fedcox: Run) -> None:
    damaged = files.folder / "all.parquet"
    damaged.write_bytes(b"PAR1 and nothing else")
    ended = fedcox("fit", files.study, "--data", damaged, "--out", files.run)
    assert ended.status == 2
    assert "not a Parquet file, or it is damaged" in ended.err
    assert not files.run.exists()


@pytest.mark.parametrize(
    "words", [["fit"], ["fit", "study.toml"], ["fti"], ["check", "x.toml"]]
)
def test_a_command_that_is_not_complete_ends_with_status_two(
    words: list[str], fedcox: Run
) -> None:
    ended = fedcox(*words)
    assert ended.status == 2
    assert "Traceback" not in ended.err


def test_a_real_process_ends_the_same_way(files: Files) -> None:
    write(files, IN_THE_FILE["a zero time"])
    before = files.listing()
    ended = subprocess.run(
        [sys.executable, "-m", "fedcox.cli.main", *map(str, files.words())],
        capture_output=True,
        text=True,
        check=False,
        cwd=files.folder,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert_told(ended.stderr, IN_THE_FILE["a zero time"].said)
    assert files.listing() == before


# What is legal


def test_a_center_without_events_and_one_of_a_single_patient_are_legal(
    files: Files, fedcox: Run
) -> None:
    table = invented()
    table.loc[table["hospital"] == "west", "died"] = 0
    table.loc[0, "hospital"] = "lonely"
    table.to_csv(files.data, index=False)
    ended = fedcox(*files.words())
    assert ended.status == 0
    assert (files.run / "fit.json").exists()


@pytest.mark.parametrize("rule", ["drop", "first_interval"])
def test_zero_times_are_taken_as_the_study_says(rule: str, files: Files, fedcox: Run) -> None:
    cell("days", 0)(invented()).to_csv(files.data, index=False)
    files.study.write_text(
        STUDY.replace('unit = "days"', f'zero_times = "{rule}"'), encoding="utf-8"
    )
    assert fedcox(*files.words()).status == 0


def test_the_files_of_centers_may_be_csv_and_parquet(files: Files, fedcox: Run) -> None:
    frame = invented()
    words: list[str | Path] = []
    for number, (name, part) in enumerate(frame.groupby("hospital")):
        file = files.folder / f"{name}.{'parquet' if number else 'csv'}"
        if number:
            part.to_parquet(file, index=False)
        else:
            part.to_csv(file, index=False)
        words += ["--center", f"{name}={file}"]
    assert fedcox("fit", files.study, *words, "--out", files.run).status == 0
    assert fedcox(*files.words()[:-1], files.folder / "pooled").status == 0
    apart = pd.read_csv(files.run / "summary.csv")
    pooled = pd.read_csv(files.folder / "pooled" / "summary.csv")
    pd.testing.assert_frame_equal(apart, pooled, rtol=1e-9)
