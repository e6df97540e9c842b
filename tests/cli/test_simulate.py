"""None"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from fedcox.cli.simulate import Split, simulate
from fedcox.data.cohort_file import read_cohort
from fedcox.errors import InputError, OutputError
from fedcox.study import simulation
from fedcox.study.study import Study
from tests.cli.conftest import Run


def test_a_simulation_is_a_study_with_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "demo"
    simulate(folder, centers=3, patients=90)
    names = ["all.csv", "hospital_1.csv", "hospital_2.csv", "hospital_3.csv", "study.toml"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]
    study = Study.read(folder / "study.toml")
    assert study.source.startswith("# Simulated patients. True log hazard ratios: age 0.03,")
    sizes = [read_cohort(path, study.schema).cohort.patients for path in folder.glob("h*.csv")]
    assert sum(sizes) == 90 == len(pd.read_csv(folder / "all.csv"))
    assert "simulated hospitals" in capsys.readouterr().out


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        simulate(tmp_path / name, centers=2, patients=30, seed=7)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_file_of_a_hospital_is_its_part_of_the_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "_ROWS", 7)  # less than some hospitals, more than others
    folder = tmp_path / "p"
    simulate(folder, centers=40, patients=300, paper=True, covariates=2, split="dirichlet")
    whole = pd.read_csv(folder / "all.csv", dtype=str)
    sizes = []
    for name, patients in whole.groupby("hospital"):
        there = pd.read_csv(folder / f"{name}.csv", dtype=str)
        expected = patients.drop(columns="hospital").reset_index(drop=True)
        pd.testing.assert_frame_equal(there, expected)
        sizes.append(len(there))
    assert min(sizes) < 7 < max(sizes)
    assert len(list(folder.glob("hospital_*.csv"))) == len(sizes) == 40


def test_a_thousand_hospitals_are_shown_by_the_largest_and_their_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(tmp_path / "many", centers=1000)
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 35
    patients = [int(n.replace(",", "")) for n in re.findall(r"│ +([\d,]+) │ +[\d,]+ │", told)]
    assert len(patients) == 21
    assert patients[:20] == sorted(patients[:20], reverse=True)
    assert sum(patients) == 20_000  # 20 each where nobody says how many
    assert "980 smaller centers" in told
    assert re.search(r"^1,002 files, [\d.]+ MB, in \d+\.\d s", told, re.MULTILINE)


def test_few_hospitals_share_fifteen_hundred_patients(tmp_path: Path) -> None:
    simulate(tmp_path / "few", centers=70)
    assert len(pd.read_csv(tmp_path / "few" / "all.csv")) == 1500


@pytest.mark.parametrize("split", get_args(Split))
def test_the_papers_generator_has_the_papers_plan(tmp_path: Path, split: Split) -> None:
    simulate(tmp_path / "p", centers=2, patients=20, paper=True, covariates=12, split=split)
    study = Study.read(tmp_path / "p" / "study.toml")
    assert study.model.link == "logit"
    assert study.grid.times == "events"
    assert len(study.schema.encoded_names) == 12
    frame = pd.read_csv(tmp_path / "p" / "all.csv")
    last = frame.groupby("hospital")["time"].max()
    first = frame.groupby("hospital")["time"].min()
    assert (last.iloc[0] <= first.iloc[1]) == (split == "time")


def test_options_that_would_do_nothing_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        simulate(
            tmp_path / "s",
            covariates=200,
            split="uniform",
            censoring="patient",
            concentration=0.5,
        )
    text = str(told.value)
    for option in ("--covariates", "--split", "--censoring", "--concentration"):
        assert option in text
    assert "4 options" in text
    assert "--paper" in text
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("split", [None, "uniform", "time"])
def test_a_concentration_is_of_the_dirichlet_split_alone(
    tmp_path: Path, split: Split | None
) -> None:
    with pytest.raises(InputError, match="--split dirichlet") as told:
        simulate(tmp_path / "s", paper=True, split=split, concentration=0.5)
    assert "1 option would" in str(told.value)


def test_options_left_out_are_those_that_help_tells(tmp_path: Path) -> None:
    simulate(tmp_path / "a", centers=2, patients=20, paper=True, split="dirichlet")
    simulate(
        tmp_path / "b",
        centers=2,
        patients=20,
        paper=True,
        covariates=200,
        split="dirichlet",
        concentration=0.5,
        censoring="patient",
    )
    simulate(tmp_path / "c", centers=2, patients=20, paper=True)
    simulate(tmp_path / "d", centers=2, patients=20, paper=True, split="uniform")
    for one, other in (("a", "b"), ("c", "d")):
        there = (tmp_path / other / "all.csv").read_bytes()
        assert (tmp_path / one / "all.csv").read_bytes() == there


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    simulate(tmp_path / "demo", centers=3, patients=30)
    with pytest.raises(OutputError, match="--overwrite"):
        simulate(tmp_path / "demo", centers=2, patients=30)
    assert (tmp_path / "demo" / "hospital_3.csv").exists()


def test_overwrite_replaces_the_whole_simulation(tmp_path: Path) -> None:
    simulate(tmp_path / "demo", centers=3, patients=30)
    simulate(tmp_path / "demo", centers=2, patients=30, overwrite=True)
    assert not (tmp_path / "demo" / "hospital_3.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_overwrite_never_removes_other_work(tmp_path: Path) -> None:
    simulate(tmp_path / "demo", centers=2, patients=30)
    (tmp_path / "demo" / "thesis.docx").write_text("years of work")
    with pytest.raises(OutputError, match=r"more than the simulation: thesis\.docx"):
        simulate(tmp_path / "demo", centers=2, patients=30, overwrite=True)
    assert (tmp_path / "demo" / "thesis.docx").exists()


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 patients for 5 centers"):
        simulate(tmp_path / "demo", centers=5, patients=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="not a folder"):
        simulate(tmp_path / "file")
    with pytest.raises(OutputError, match="Cannot write"):
        simulate(tmp_path / "file" / "demo", centers=2, patients=10)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_demo_fits_five_hospitals_and_writes_the_report(
    tmp_path: Path, fedcox: Run
) -> None:
    out = tmp_path / "demo"
    ended = fedcox("demo", "--out", out)
    assert ended.status == 0
    assert "Five simulated hospitals" in ended.out
    assert "hazard ratio" in ended.out
    record = json.loads((out / "run" / "fit.json").read_text(encoding="utf-8"))
    assert len(record["centers"]) == 5
    assert sum(center["patients"] for center in record["centers"]) == 1500
    assert (out / "run" / "report.html").exists()
    assert len(list((out / "hospitals").glob("hospital_*.csv"))) == 5


def test_the_demos_intervals_hold_the_truth_it_was_simulated_with(
    tmp_path: Path, fedcox: Run
) -> None:
    assert fedcox("demo", "--out", tmp_path / "demo").status == 0
    text = (tmp_path / "demo" / "hospitals" / "study.toml").read_text(encoding="utf-8")
    heading = text.splitlines()[0].removesuffix(".").partition("ratios: ")[2]
    truth = {name: float(value) for name, value in map(str.split, heading.split(", "))}
    fitted = json.loads((tmp_path / "demo" / "run" / "fit.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in fitted["coefficients"]}
    assert rows.keys() == truth.keys()
    for name, value in truth.items():
        assert abs(rows[name]["coef"] - value) < 3.3 * rows[name]["se"]


def test_a_demo_that_is_there_is_kept_unless_told_otherwise(
    tmp_path: Path, fedcox: Run
) -> None:
    out = tmp_path / "demo"
    assert fedcox("demo", "--out", out).status == 0
    first = (out / "run" / "fit.json").read_bytes()
    refused = fedcox("demo", "--out", out, "--seed", "2")
    assert refused.status == 2
    assert "--overwrite" in refused.err
    assert (out / "run" / "fit.json").read_bytes() == first
    assert fedcox("demo", "--out", out, "--seed", "2", "--overwrite").status == 0
    assert (out / "run" / "fit.json").read_bytes() != first


def test_other_files_beside_a_demo_are_kept(tmp_path: Path, fedcox: Run) -> None:
    out = tmp_path / "demo"
    assert fedcox("demo", "--out", out).status == 0
    (out / "run" / "thesis.docx").write_text("years of work", encoding="utf-8")
    assert fedcox("demo", "--out", out, "--overwrite").status == 2
    assert (out / "run" / "thesis.docx").exists()
