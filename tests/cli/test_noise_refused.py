"""A study under noise that cannot be as it is: refused by name, before a budget is touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Run

STUDY = """\
[outcome]
time = "days"
event = "died"
unit = "days"

[covariates]
age = { type = "number", min = 20, max = 100 }
sex = { type = "category", levels = ["f", "m"], reference = "f" }

[grid]
pieces = 4
horizon = 300

[privacy]
secure_sums = true

[privacy.noise]
epsilon = 30
patients = 600
"""

#: What is changed in the study, and what is said of it; numbers of patients and of centers.
MISTAKES = {
    "no epsilon has this price": (
        ("epsilon = 30", "price = 0.0001"),
        "No epsilon below 1000 has a price of 0.0001",
    ),
    "a range is missing": (
        (", min = 20, max = 100", ""),
        "[covariates] age: min and max are needed",
    ),
    "a value outside its range": (
        ("max = 100", "max = 70"),
        "Column 'age'",
    ),
    "an event outside the levels": (('["f", "m"]', '["f", "x"]'), "Column 'sex'"),
    "another link": (
        ("[privacy]\n", '[model]\nlink = "logit"\n\n[privacy]\n'),
        '[model] link: "logit" is not fitted under noise',
    ),
    "too many patients": (
        ("patients = 600", "patients = 390"),
        "[privacy.noise] patients: found 600 in all centers together; the study names 390",
    ),
    "too few patients": (
        ("patients = 600", "patients = 1300"),
        "[privacy.noise] patients: found 600 in all centers together; the study names 1,300",
    ),
    "more events than patients": (
        ("patients = 600", "patients = 600\nevents = 700"),
        "[privacy.noise] events: 700 are more than the 600 patients",
    ),
    "both epsilon and price": (
        ("epsilon = 30", "epsilon = 30\nprice = 0.05"),
        "epsilon and price are given",
    ),
}


def write(folder: Path, study: str, centers: int = 4) -> None:
    rng = np.random.default_rng(8)
    time = rng.exponential(200.0, 600)
    frame = pd.DataFrame(
        {
            "days": np.ceil(np.minimum(time, 300.0)),
            "died": (time < 300.0).astype(int),
            "age": rng.integers(30, 90, 600),
            "sex": rng.choice(["f", "m"], 600),
            "site": [f"s{number}" for number in rng.integers(0, centers, 600)],
        }
    )
    frame.to_csv(folder / "all.csv", index=False)
    (folder / "study.toml").write_text(study, encoding="utf-8")


def words(folder: Path) -> list[str | Path]:
    given: list[str | Path] = ["fit", folder / "study.toml", "--data", folder / "all.csv"]
    given += ["--center-column", "site", "--out", folder / "run"]
    return [*given, "--budget", folder / "spent"]


def test_as_it_is_the_study_is_fitted_and_paid_for(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, STUDY)
    done = fedcox(*words(tmp_path))
    assert done.status == 0, done.err
    assert all(file.stat().st_size for file in (tmp_path / "spent").glob("s?.jsonl"))
    assert len(list((tmp_path / "spent").glob("s?.jsonl"))) == 4


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_by_name_and_costs_nobody(
    name: str, fedcox: Run, tmp_path: Path
) -> None:
    (old, new), said = MISTAKES[name]
    assert old in STUDY
    write(tmp_path, STUDY.replace(old, new))
    refused = fedcox(*words(tmp_path))
    assert refused.status == 2
    assert said in " ".join(refused.err.split())
    assert "Traceback" not in refused.err
    assert not (tmp_path / "run").exists()
    assert not [file for file in tmp_path.glob("spent/*") if file.stat().st_size]


def test_secure_sums_of_two_centers_cost_nobody(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, STUDY, centers=2)
    refused = fedcox(*words(tmp_path))
    assert refused.status == 2
    assert "2 centers are too few" in " ".join(refused.err.split())
    assert not [file for file in tmp_path.glob("spent/*") if file.stat().st_size]


def test_a_hospital_with_more_patients_than_all_are_to_have_is_told_by_check(
    fedcox: Run, tmp_path: Path
) -> None:
    checked = ["check", tmp_path / "study.toml", "--data", tmp_path / "all.csv"]
    write(tmp_path, STUDY.replace("patients = 600", "patients = 399"))
    refused = fedcox(*checked)
    assert refused.status == 2
    assert "found 600 in this file alone; the study names 399" in " ".join(refused.err.split())
    write(tmp_path, STUDY.replace("patients = 600", "patients = 400"))
    assert fedcox(*checked).status == 0
