from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.errors import InputError
from fedcox.evaluation.experiment import Experiment, run_experiment
from fedcox.evaluation.problem import FixedPatients, PaperPatients
from fedcox.evaluation.result import Row, read_results
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes.hazards import FedAvg
from fedcox.survival.cohort import Cohort
from tests.evaluation.quick_schemes import Dice, FirstColumn
from tests.problems import simulated, split

ROOT = Path(__file__).parents[2]
CENTERS = split(simulated(60, 3, seed=2), np.arange(60) % 3, 3)


def experiment(**changes: Any) -> Experiment:
    given: dict[str, Any] = {
        "name": "made up",
        "problem": FixedPatients.of(CENTERS),
        "schemes": (FirstColumn(), Dice()),
        "recipe": Recipe(),
        "folds": 4,
        "left_out": True,
        "seeds": (0, 1),
    }
    return Experiment(**{**given, **changes})


def numbers(row: Row) -> dict[str, Any]:
    """What a row says, but for how long it took."""
    return {**asdict(row), "seconds": None}


def indices(rows: tuple[Row, ...], scheme: str) -> dict[Any, float | None]:
    return {row.key: row.c_index for row in rows if row.scheme == scheme}


def test_every_scheme_is_judged_on_every_test_set_of_every_seed(tmp_path: Path) -> None:
    rows = run_experiment(experiment(), tmp_path / "rows.jsonl")
    assert len(rows) == 2 * 2 * (4 + 3)
    assert [row.key for row in rows] == [job.key for job in experiment().jobs()]
    for seed in (0, 1):
        tested = [row for row in rows if row.seed == seed and row.scheme == "FIRST"]
        folds = [row for row in tested if row.evaluation == "folds"]
        assert [row.fold for row in folds] == [1, 2, 3, 4]
        assert sum(row.patients for row in folds) == 60
        assert {row.patients + row.trained_on for row in tested} == {60}
        centers = [row.center for row in tested if row.evaluation == "left out"]
        assert centers == ["center 00", "center 01", "center 02"]
    assert read_results(tmp_path / "rows.jsonl") == (
        {"format": "fedcox evaluation, 1", **experiment().header},
        rows,
    )


def test_another_scheme_changes_none_of_the_numbers(tmp_path: Path) -> None:
    both = run_experiment(experiment(), tmp_path / "both.jsonl")
    alone = run_experiment(experiment(schemes=(Dice(),)), tmp_path / "alone.jsonl")
    assert indices(alone, "DICE") == indices(both, "DICE")


def test_another_fold_and_another_seed_draw_other_numbers(tmp_path: Path) -> None:
    rows = run_experiment(experiment(schemes=(Dice(),)), tmp_path / "rows.jsonl")
    drawn = [row.notes for row in rows]
    assert len(set(drawn)) == len(drawn)


def test_more_workers_give_the_same_file_but_for_the_seconds(tmp_path: Path) -> None:
    one = run_experiment(experiment(), tmp_path / "one.jsonl", workers=1)
    two = run_experiment(experiment(), tmp_path / "two.jsonl", workers=2)
    assert list(map(numbers, one)) == list(map(numbers, two))
    assert [row.key for row in read_results(tmp_path / "two.jsonl")[1]] == [
        job.key for job in experiment().jobs()
    ]


def test_patients_drawn_anew_are_drawn_in_every_worker(tmp_path: Path) -> None:
    drawn = experiment(problem=PaperPatients(80, 3, 4, split="time"), left_out=False)
    one = run_experiment(drawn, tmp_path / "one.jsonl")
    two = run_experiment(drawn, tmp_path / "two.jsonl", workers=2)
    assert list(map(numbers, one)) == list(map(numbers, two))
    assert one[0].c_index != one[8].c_index
    assert drawn.header["drawn_anew"] is True


def test_the_watcher_hears_of_every_row_and_of_those_that_were_there(tmp_path: Path) -> None:
    heard: list[tuple[int, int, bool]] = []

    def watch(done: int, total: int, row: Row | None) -> None:
        heard.append((done, total, row is not None))

    file = tmp_path / "rows.jsonl"
    run_experiment(experiment(), file, watch=watch)
    assert heard == [(done, 28, done > 0) for done in range(29)]
    heard.clear()
    run_experiment(experiment(), file, watch=watch)
    assert heard == [(28, 28, False)]


# Interrupted and taken up again


def test_a_run_that_failed_in_the_middle_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"

    def watch(done: int, total: int, row: Row | None) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(), file, watch=watch)
    before = read_results(file)[1]
    assert len(before) == 10
    rows = run_experiment(experiment(), file)
    assert rows[:10] == before
    whole = run_experiment(experiment(), tmp_path / "whole.jsonl")
    assert list(map(numbers, rows)) == list(map(numbers, whole))


PROGRAM = """
from pathlib import Path
from tests.evaluation.quick_schemes import Dice, FirstColumn
from tests.evaluation.test_experiment import experiment
from fedcox.evaluation.experiment import run_experiment

if __name__ == "__main__":
    slow = (FirstColumn(pause=0.15), Dice(pause=0.15))
    try:
        run_experiment(experiment(schemes=slow), Path({file!r}), workers={workers})
    except KeyboardInterrupt:
        raise SystemExit(77)
"""


Begin = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Begin]:
    """Start a real run in a process of its own, and wait until it has some rows."""
    file, program, said = (tmp_path / name for name in ("rows.jsonl", "run.py", "said.txt"))
    started = []

    def start(workers: int) -> subprocess.Popen[bytes]:
        program.write_text(PROGRAM.format(file=str(file), workers=workers), encoding="utf-8")
        paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        with said.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, str(program)],
                env={**os.environ, "PYTHONPATH": paths},
                stderr=errors,
            )
        started.append(process)
        deadline = time.monotonic() + 60
        while not file.exists() or file.read_bytes().count(b"\n") < 4:
            assert process.poll() is None, said.read_text(encoding="utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(number) for number in listed.split()]


def gone(process: int) -> bool:
    """Whether a process has ended; one that only waits to be noticed has."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_rows_and_no_process_and_goes_on_to_the_same_file(
    begun: Begin,
    tmp_path: Path,
    workers: int,
    ending: signal.Signals,
) -> None:
    process = begun(workers)
    helpers = children(process.pid)
    process.send_signal(ending)
    assert process.wait(timeout=30) == (77 if ending == signal.SIGINT else -ending)
    deadline = time.monotonic() + 10
    while not all(gone(helper) for helper in helpers):
        assert time.monotonic() < deadline, "a worker outlived the run"
        time.sleep(0.02)
    if ending == signal.SIGINT:  # after a kill, Python itself tells of locks left behind
        assert (tmp_path / "said.txt").read_bytes() == b""
    file = tmp_path / "rows.jsonl"
    kept = file.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    before = read_results(file)[1]
    assert 3 <= len(before) < 28
    rows = run_experiment(experiment(), file)
    assert set(before) <= set(rows)
    assert set(kept.splitlines()) <= set(file.read_bytes().splitlines())
    whole = run_experiment(experiment(), tmp_path / "whole.jsonl")
    assert list(map(numbers, rows)) == list(map(numbers, whole))


def test_another_experiments_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    run_experiment(experiment(), file)
    before = file.read_bytes()
    changed = {name: replace(part, time=part.time + 1) for name, part in CENTERS.items()}
    for other, place in (
        (experiment(seeds=(0, 2)), "seeds"),
        (experiment(recipe=Recipe(ridge=2.0)), "recipe, ridge"),
        (experiment(folds=3), "folds"),
        (experiment(schemes=(Dice(),)), "schemes"),
        (experiment(problem=FixedPatients.of(changed)), "The patients are not the same"),
    ):
        with pytest.raises(InputError, match="another experiment") as raised:
            run_experiment(other, file)
        assert any(fault.startswith(place) for fault in raised.value.faults)
    assert file.read_bytes() == before


def test_the_header_is_plain_json_and_holds_versions() -> None:
    header = json.loads(json.dumps(experiment().header, allow_nan=False))
    assert {"python", "fedcox", "numpy", "scipy"} <= header["versions"].keys()
    assert header["recipe"]["batch_size"] == 100
    assert header["rows"] == 28


# Bad input


def test_all_faults_of_an_experiment_are_told_at_once() -> None:
    cohorts = {"north": CENTERS["center 00"], "tiny": first(CENTERS["center 01"], 2)}
    censored = {
        name: replace(part, event=np.zeros_like(part.event)) for name, part in cohorts.items()
    }
    with pytest.raises(InputError, match="cannot be run") as raised:
        experiment(
            problem=FixedPatients.of(censored), schemes=(Dice(), Dice()), seeds=(0, 0), folds=4
        )
    told = "\n".join(raised.value.faults)
    for words in ("DICE is named 2 times", "seed is given twice", "tiny (2 patients)", "event"):
        assert words in told


def first(cohort: Cohort, patients: int) -> Cohort:
    return Cohort(cohort.covariates[:patients], cohort.time[:patients], cohort.event[:patients])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schemes": ()}, "No scheme"),
        ({"seeds": ()}, "no seed"),
        ({"seeds": (-1,)}, "negative"),
        ({"folds": None, "left_out": False}, "Neither"),
        ({"folds": 1}, "two are the least"),
        ({"problem": FixedPatients.of({"one": CENTERS["center 00"]})}, "two are the least"),
    ],
)
def test_an_experiment_that_cannot_be_run_says_why(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        experiment(**changes)


def test_no_worker_is_no_way_to_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one is the least"):
        run_experiment(experiment(), tmp_path / "rows.jsonl", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_a_scheme_made_with_other_settings_is_another_experiment(tmp_path: Path) -> None:
    few = FedAvg(rounds=2, local_steps=1, learning_rate=0.1)
    run_experiment(experiment(schemes=(few,), seeds=(0,)), tmp_path / "rows.jsonl")
    other = experiment(schemes=(replace(few, learning_rate=0.01),), seeds=(0,))
    with pytest.raises(InputError, match="another experiment") as caught:
        run_experiment(other, tmp_path / "rows.jsonl")
    assert "learning_rate" in str(caught.value)


def test_centers_too_small_for_the_folds_are_told_for_every_seed() -> None:
    uneven = PaperPatients(300, 3, 5, split="dirichlet", concentration=0.1)
    smallest = [min(c.patients for c in uneven.cohorts(seed).values()) for seed in range(10)]
    assert smallest[0] >= 5
    assert min(smallest) < 5
    with pytest.raises(InputError) as caught:
        experiment(problem=uneven, seeds=tuple(range(10)))
    small = [seed for seed, size in enumerate(smallest) if size < 5]
    assert all(f"Seed {seed}: " in str(caught.value) for seed in small)


def test_left_out_centers_may_have_fewer_runs(tmp_path: Path) -> None:
    asked = experiment(left_out=True, seeds=(0, 1, 2), left_out_runs=1)
    rows = run_experiment(asked, tmp_path / "rows.jsonl")
    assert {row.seed for row in rows if row.evaluation == "left out"} == {0}
    assert {row.seed for row in rows if row.evaluation == "folds"} == {0, 1, 2}


@dataclass(frozen=True)
class Unable(FirstColumn):
    name: str = "UNABLE"

    def check(self) -> None:
        raise InputError("UNABLE needs more.", ["Get it."])


def test_a_scheme_that_cannot_run_is_told_with_all_other_faults() -> None:
    with pytest.raises(InputError) as raised:
        experiment(schemes=(Unable(), Dice()), seeds=(0, 0))
    assert "UNABLE needs more. Get it." in raised.value.faults
    assert any("A seed is given twice" in fault for fault in raised.value.faults)
