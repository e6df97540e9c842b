from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedcox.analysis.study import Study
from fedcox.cli.simulate import Split, simulate
from fedcox.data.cohort_file import read_cohort
from fedcox.errors import InputError, OutputError


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


@pytest.mark.parametrize("split", list(Split))
def test_the_papers_generator_has_the_papers_plan(tmp_path: Path, split: Split) -> None:
    simulate(tmp_path / "p", centers=2, patients=20, paper=True, covariates=12, split=split)
    study = Study.read(tmp_path / "p" / "study.toml")
    assert study.model.link == "logit"
    assert study.grid.times == "events"
    assert len(study.schema.encoded_names) == 12
    frame = pd.read_csv(tmp_path / "p" / "all.csv")
    last = frame.groupby("hospital")["time"].max()
    first = frame.groupby("hospital")["time"].min()
    assert (last.iloc[0] <= first.iloc[1]) == (split is Split.TIME)


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
    with pytest.raises(OutputError, match=r"thesis\.docx"):
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
