"""Schemes × test sets × seeds: what an experiment consists of, and how it is run.

Every row depends on its own seed, test set and scheme and on nothing else, so rows may come in
any order, from any number of processes, in one run or in several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from fedcox.errors import InputError
from fedcox.evaluation.folds import (
    center_test_set,
    fold_faults,
    fold_numbers,
    fold_test_set,
    left_out_faults,
)
from fedcox.evaluation.held_out import judge
from fedcox.evaluation.problem import AbstractProblem, arrays_hash
from fedcox.evaluation.result import (
    Evaluation,
    Row,
    RowKey,
    library_versions,
    open_results,
    write_results,
)
from fedcox.evaluation.scheme import AbstractScheme, Recipe
from fedcox.evaluation.seeds import derived_seed
from fedcox.evaluation.workers import rows_made
from fedcox.survival.cohort import Cohort

#: Hears of every row that is there: how many, out of how many, and the row itself; those of an
#: earlier run come first, all at once and without a row.
Watcher = Callable[[int, int, Row | None], None]


@dataclass(frozen=True)
class Job:
    """One row to be made."""

    seed: int
    evaluation: Evaluation
    test_set: int | str
    scheme: str

    @property
    def key(self) -> RowKey:
        return self.seed, self.evaluation, self.test_set, self.scheme


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that determines the rows.

    `folds` None does without folds; `left_out` leaves out one center at a time. Each is
    repeated for every seed, but left-out centers for the first `left_out_runs` of them if that
    is given: their test sets do not change, only what a scheme draws. All faults are raised at
    once, before anything is run.
    """

    name: str
    problem: AbstractProblem
    schemes: tuple[AbstractScheme, ...]
    recipe: Recipe
    folds: int | None = 5
    left_out: bool = False
    seeds: tuple[int, ...] = (0,)
    left_out_runs: int | None = None

    def __post_init__(self) -> None:
        faults = [*self._plan_faults(), *self._scheme_faults(), *self._patient_faults()]
        if faults:
            raise InputError("This evaluation cannot be run as it is.", faults)

    def __getstate__(self) -> dict[str, Any]:
        """For a worker process: what was given, not what was worked out from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _plan_faults(self) -> Iterator[str]:
        if not self.schemes:
            yield "No scheme is named; one is the least."
        if not self.seeds:
            yield "There is no seed; one run is the least."
        if any(seed < 0 for seed in self.seeds):
            yield "A seed is negative; zero is the least."
        if len(set(self.seeds)) < len(self.seeds):
            yield "A seed is given twice; each run needs its own."
        if self.folds is None and not self.left_out:
            yield "Neither folds nor left-out centers are asked for; name one of them."
        names = [scheme.name for scheme in self.schemes]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"Scheme {name} is named {names.count(name)} times; once is enough."

    def _scheme_faults(self) -> Iterator[str]:
        for scheme in self.schemes:
            try:
                scheme.check()
            except InputError as error:
                yield " ".join([error.subject, *error.faults])

    def _patient_faults(self) -> Iterator[str]:
        if not self.seeds or min(self.seeds) < 0:
            return
        cohorts = self._first_cohorts
        if self.folds is not None:
            yield from self._fold_faults(self.folds)
        if self.left_out:
            yield from left_out_faults(cohorts)
        if not any(cohort.event.any() for cohort in cohorts.values()):
            yield (
                "No center has an event, so there is nothing to learn; check the study's "
                "event column and event_value against the files."
            )

    def _fold_faults(self, folds: int) -> Iterator[str]:
        """Centers too small for the folds, in any run where patients are drawn anew."""
        yield from fold_faults(self._first_cohorts, folds)
        if self.problem.drawn_anew:
            for seed in self.seeds[1:]:
                for fault in fold_faults(self.problem.cohorts(seed), folds):
                    yield f"Seed {seed}: {fault}"

    @cached_property
    def _first_cohorts(self) -> dict[str, Cohort]:
        return self.problem.cohorts(self.seeds[0])

    @cached_property
    def header(self) -> dict[str, Any]:
        """What the file of results begins with; two experiments differ where these do."""
        patients = {**self.problem.fingerprint(), "sha256": arrays_hash(self._first_cohorts)}
        return {
            "experiment": self.name,
            "patients": patients,
            "drawn_anew": self.problem.drawn_anew,
            "recipe": asdict(self.recipe),
            "schemes": [scheme.name for scheme in self.schemes],
            "settings": {
                scheme.name: settings
                for scheme in self.schemes
                if (settings := scheme.settings())
            },
            "folds": self.folds,
            "left_out": self.left_out,
            "seeds": [*self.seeds],
            "left_out_runs": self.left_out_runs,
            "rows": len(self.jobs()),
            "versions": library_versions(),
        }

    def jobs(self) -> list[Job]:
        """Every row to be made, in the order of the finished file."""
        return [
            Job(seed, evaluation, test_set, scheme.name)
            for evaluation, test_sets in self._evaluations().items()
            for seed in self._seeds(evaluation)
            for test_set in test_sets
            for scheme in self.schemes
        ]

    def _evaluations(self) -> dict[Evaluation, Sequence[int | str]]:
        evaluations: dict[Evaluation, Sequence[int | str]] = {}
        if self.folds is not None:
            evaluations["folds"] = range(1, self.folds + 1)
        if self.left_out:
            evaluations["left out"] = self.problem.centers
        return evaluations

    def _seeds(self, evaluation: Evaluation) -> tuple[int, ...]:
        return self.seeds[: self.left_out_runs] if evaluation == "left out" else self.seeds

    def row(self, job: Job) -> Row:
        """Do one job."""
        cohorts = _cohorts(self.problem, job.seed)
        if isinstance(job.test_set, int):
            numbers = fold_numbers(cohorts, self.folds or 0, seed=job.seed)
            test_set = fold_test_set(numbers, job.test_set)
        else:
            test_set = center_test_set(cohorts, job.test_set)
        (scheme,) = (scheme for scheme in self.schemes if scheme.name == job.scheme)
        seed = derived_seed(job.seed, job.evaluation, job.test_set, job.scheme)
        judgement = judge(scheme, cohorts, test_set, self.recipe, seed=seed)
        left_out = job.evaluation == "left out"
        return Row(
            experiment=self.name,
            seed=job.seed,
            evaluation=job.evaluation,
            fold=None if left_out else int(job.test_set),
            center=str(job.test_set) if left_out else None,
            scheme=job.scheme,
            **asdict(judgement),
        )


def run_experiment(
    experiment: Experiment,
    path: str | Path,
    *,
    workers: int = 1,
    watch: Watcher = lambda done, total, row: None,
) -> tuple[Row, ...]:
    """Make all rows that are not in the file yet, each written there as soon as it is done.

    An interrupted run – Ctrl-C, a kill, a power cut – is taken up by the same call. With more
    than one worker, each is a process of its own with one thread for linear algebra, and a
    script that calls this must do so under `if __name__ == "__main__":`. The finished file is
    in the order of `jobs`, whoever was first.
    """
    if workers < 1:
        raise InputError(f"{workers} workers cannot do anything; one is the least.")
    file = open_results(Path(path), experiment.header)
    jobs = experiment.jobs()
    there = {row.key for row in file.rows}
    missing = [job for job in jobs if job.key not in there]
    watch(len(jobs) - len(missing), len(jobs), None)
    for row in rows_made(experiment, missing, workers=workers):
        file.add(row)
        watch(len(file.rows), len(jobs), row)
    by_key = {row.key: row for row in file.rows}
    rows = [by_key[job.key] for job in jobs]
    write_results(file.path, experiment.header, rows)
    return tuple(rows)


@lru_cache(maxsize=1)
def _cohorts(problem: AbstractProblem, seed: int) -> dict[str, Cohort]:
    """Drawn once for all jobs of a seed, which follow each other."""
    return problem.cohorts(seed)
