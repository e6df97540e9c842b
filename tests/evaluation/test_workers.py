from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.evaluation.experiment import run_experiment
from fedcox.evaluation.result import read_results
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from tests.evaluation.quick_schemes import FirstColumn, columns_of, one_column
from tests.evaluation.test_experiment import experiment


@dataclass(frozen=True)
class WhoAmI(AbstractScheme):
    """Notes the process and its setting."""

    name: str = "WHO"
    summary: str = "The process"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        notes = (
            str(os.getpid()),
            os.environ.get("OPENBLAS_NUM_THREADS", "as many as it likes"),
        )
        return Trained((one_column(columns_of(federation)),), notes=notes)


@dataclass(frozen=True)
class Mortal(AbstractScheme):
    """Takes its process along, as a lack of memory would."""

    broken: bool = False
    name: str = "MORTAL"
    summary: str = "Ends"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        if self.broken:
            raise ZeroDivisionError("a fault of the scheme")
        os._exit(9)


def test_every_worker_is_another_process_with_one_thread_for_linear_algebra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    rows = run_experiment(experiment(schemes=(WhoAmI(),)), tmp_path / "rows.jsonl", workers=2)
    processes = {row.notes[0] for row in rows}
    assert 1 <= len(processes) <= 2
    assert str(os.getpid()) not in processes
    assert {row.notes[1] for row in rows} == {"1"}
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    rows = run_experiment(experiment(schemes=(WhoAmI(),)), tmp_path / "rows.jsonl", workers=1)
    assert {row.notes[0] for row in rows} == {str(os.getpid())}


def test_a_worker_that_dies_is_told_of_and_the_rows_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    mortal = experiment(schemes=(FirstColumn(), Mortal()))
    with pytest.raises(InputError, match="sudden end") as raised:
        run_experiment(mortal, file, workers=2)
    assert raised.value.faults == ("The rows so far are kept: go on with fewer workers.",)
    assert {row.scheme for row in read_results(file)[1]} <= {"FIRST"}


def test_a_fault_of_a_scheme_is_not_hidden(tmp_path: Path) -> None:
    broken = experiment(schemes=(FirstColumn(), Mortal(broken=True)))
    with pytest.raises(ZeroDivisionError, match="a fault of the scheme"):
        run_experiment(broken, tmp_path / "rows.jsonl", workers=2)
