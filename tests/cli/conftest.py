"""The commands as a user types them, run in this process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main

from fedcox.cli.main import main

STUDY = """\
[study]
name = "invented"
patient_id = "patient"

[outcome]
time = "days"
event = "died"
unit = "days"

[covariates]
age = { type = "number", min = 0, max = 120 }
stage = { type = "category", levels = ["I", "II", "III"], reference = "I" }

[grid]
width = 100
"""


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]
Once = Callable[[str, "Sequence[str | Path]", Path], None]


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once() -> Iterator[None]:
    """Typer makes all commands anew for every call; a process of a user makes one call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def fedcox(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `fedcox WORDS`; a traceback would fail the test."""

    def run(*words: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fedcox", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        code = stopped.value.code
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, said.out, said.err)

    return run


def invented(patients: int = 60, seed: int = 0) -> pd.DataFrame:
    """Invented patients of three hospitals, with effects of age and stage."""
    rng = np.random.default_rng(seed)
    age = rng.integers(40, 90, patients)
    stage = rng.integers(0, 3, patients)
    hazard = np.exp(0.03 * (age - 65) + 0.4 * stage)
    survived = rng.exponential(500.0 / hazard)
    censored = rng.uniform(50.0, 900.0, patients)
    return pd.DataFrame(
        {
            "patient": [f"p{number:03d}" for number in range(patients)],
            "hospital": np.array(["north", "south", "west"])[np.arange(patients) % 3],
            "age": age,
            "stage": np.array(["I", "II", "III"])[stage],
            "days": np.ceil(np.minimum(survived, censored)).astype(int),
            "died": (survived <= censored).astype(int),
        }
    )


@dataclass(frozen=True)
class Files:
    """A study and its patients on disk."""

    folder: Path
    study: Path
    data: Path
    run: Path

    def words(self) -> list[str | Path]:
        """A `fedcox fit` that works."""
        return [
            "fit",
            self.study,
            "--data",
            self.data,
            "--center-column",
            "hospital",
            "--out",
            self.run,
        ]

    def listing(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    study, data = tmp_path / "study.toml", tmp_path / "all.csv"
    study.write_text(STUDY, encoding="utf-8")
    invented().to_csv(data, index=False)
    return Files(tmp_path, study, data, tmp_path / "run")


#: The folder of a command that ended well, by its name: made once, then copied.
_KEPT: dict[str, Path] = {}


@pytest.fixture
def once(fedcox: Run, tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Run a command the first time; later give a copy of the folder `run` it made."""

    def once(name: str, words: Sequence[str | Path], run: Path) -> None:
        if name in _KEPT:
            shutil.copytree(_KEPT[name], run)
            return
        assert fedcox(*words).status == 0
        _KEPT[name] = shutil.copytree(run, tmp_path_factory.mktemp(name) / "run")

    return once


@pytest.fixture
def fitted_files(files: Files, once: Once) -> Files:
    """The study and its patients, fitted."""
    once("fitted", files.words(), files.run)
    return files
