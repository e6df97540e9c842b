from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.cli.check import check
from fedcox.errors import CohortError, StudyError

STUDY = """
[outcome]
time = "days"
event = "died"
zero_times = "drop"

[covariates]
age = { type = "number" }
stage = { type = "category", levels = ["I", "II", "III"], reference = "I" }

[grid]
width = 100

[model]
missing = "mean"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture
def data(tmp_path: Path) -> Path:
    patients = 40
    frame = pd.DataFrame(
        {
            "age": 1000.5 + np.arange(patients),
            "stage": ["I"] * 27 + ["II"] * 10 + ["III"] * 3,
            "days": [0] + [17] * 9 + [117] * 2 + [217] * 26 + [917, 918],
            "died": [1] * 38 + [0, 1],
        }
    )
    frame.loc[3:5, "age"] = np.nan
    file = tmp_path / "hospital.csv"
    frame.to_csv(file, index=False)
    return file


def test_secure_sums_without_noise_are_a_remark(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hospital gives exact sums whose policy does not say so."""
    check(study, data)
    assert "exact_sums" not in capsys.readouterr().out
    study.write_text(STUDY + "\n[privacy]\nsecure_sums = true\n")
    check(study, data)
    assert "exact_sums = true" in capsys.readouterr().out


def test_a_good_file_is_shown_in_counts(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(study, data)
    shown = capsys.readouterr().out
    assert "39 patients, 38 events." in shown
    assert "1 left out, as the study says: zero follow-up time." in shown
    assert "3 cells of column 'age' to be filled with the mean, as the study says." in shown
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["age", "number", "3", ""] in rows
    assert ["stage", "category", "0", "I: 27, II: 10, III: <5"] in rows
    assert ["0 – 100", "9"] in rows
    assert ["100 – 200", "<5"] in rows
    assert ["200 – 300", "26"] in rows
    assert ["after 300", "<5"] in rows


def test_no_patients_value_is_shown(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(study, data)
    captured = capsys.readouterr()
    for value in ("1000", "1039", "917", "918", "217", "117"):
        assert value not in captured.out + captured.err


def test_with_every_event_time_no_interval_is_shown(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(STUDY.replace("width = 100", 'times = "events"'))
    check(study, data)
    assert "none is shown" in capsys.readouterr().out


def test_a_center_without_events_is_fine(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.write_text("age,stage,days,died\n50,I,100,0\n")
    check(study, data)
    assert "A center without events is fine" in capsys.readouterr().out


def test_a_faulty_file_shows_no_table(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.write_text("age,stage,days,died\n50,IV,100,0\n60,I,-5,0\n")
    with pytest.raises(CohortError) as raised:
        check(study, data)
    assert len(raised.value.faults) == 2
    assert capsys.readouterr().out == ""


def test_a_faulty_study_is_told_before_the_file_is_read(study: Path, tmp_path: Path) -> None:
    study.write_text("[grd]")
    with pytest.raises(StudyError):
        check(study, tmp_path / "absent.csv")


def test_a_study_without_a_unit_is_asked_for_it(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(study, data)
    shown = capsys.readouterr().out
    assert "should have unit" in " ".join(shown.split())
    assert "follow-up (units of time)" in shown
    study.write_text(STUDY.replace("zero_times", 'unit = "weeks"\nzero_times'))
    check(study, data)
    shown = capsys.readouterr().out
    assert "should have unit" not in " ".join(shown.split())
    assert "follow-up (weeks)" in shown


def test_times_that_may_be_dates_are_remarked_on_and_no_fault(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(data)
    frame["days"] += 13_717
    frame.to_csv(data, index=False)
    check(study, data)
    shown = " ".join(capsys.readouterr().out.split())
    assert "40 patients" in shown
    assert "nobody has a time below 10,000" in shown
    assert "13717" not in shown


def test_without_a_width_events_are_counted_over_round_stretches_of_time(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(STUDY.replace("[grid]\nwidth = 100\n", ""))
    check(study, data)
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    # Of the last five patients the first left at day 217.
    assert ["0 – 25", "9"] in rows
    assert ["100 – 125", "<5"] in rows
    assert ["200 – 225", "26"] in rows
    assert ["after 225", "<5"] in rows
    for value in ("917", "918", "217", "117"):
        assert value not in shown


def test_events_are_counted_between_named_edges(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(STUDY.replace("width = 100", "edges = [50, 217, 1000]"))
    check(study, data)
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["0 – 50", "9"] in rows
    assert ["50 – 217", "28"] in rows
    assert ["after 217", "<5"] in rows


def test_no_interval_ends_with_a_patients_own_time(
    study: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(data)
    frame["days"] = [17] * 10 + [983] * 30
    frame.to_csv(data, index=False)
    for text in (STUDY, STUDY.replace("[grid]\nwidth = 100\n", "")):
        study.write_text(text)
        check(study, data)
        shown = capsys.readouterr().out
        assert "900 – 1000" in shown
        assert "983" not in shown
