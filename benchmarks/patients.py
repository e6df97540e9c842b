"""The patients every contender sees: simulated once, then read from the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import FOLLOW_UP_DAYS, Problem

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SEED = 20200622


@dataclass(frozen=True, eq=False)
class Patients:
    """Covariates (patients, columns), days of follow-up, events, and the true log risk."""

    covariates: FloatArray
    time: FloatArray
    event: BoolArray
    log_risk: FloatArray

    def first(self, patients: int) -> Patients:
        return Patients(
            self.covariates[:patients],
            self.time[:patients],
            self.event[:patients],
            self.log_risk[:patients],
        )

    @property
    def column_names(self) -> list[str]:
        return [f"x{column}" for column in range(self.covariates.shape[1])]


def simulate(patients: int, columns: int, rng: np.random.Generator) -> Patients:
    """Draw the paper's synthetic patients.

    x ~ N(0, I/P), beta ~ N(0, I), survival exponential with rate exp(beta·x), censoring uniform
    up to the median survival of the population, which is called 900 days.
    """
    covariates = rng.standard_normal((patients, columns))
    covariates /= np.sqrt(columns)
    log_risk = covariates @ rng.standard_normal(columns)
    survival = rng.exponential(size=patients) * np.exp(-log_risk)
    survival *= FOLLOW_UP_DAYS / np.median(survival)
    censoring = rng.uniform(0.0, FOLLOW_UP_DAYS, size=patients)
    time = np.minimum(survival, censoring)
    return Patients(covariates, time, survival <= censoring, log_risk)


def write_patients(problem: Problem, directory: Path) -> Path:
    """Simulate a problem's patients into a folder of .npy files, unless they are there."""
    folder = directory / f"{problem.patients}x{problem.columns}"
    if not folder.exists():
        folder.mkdir(parents=True)
        drawn = simulate(problem.patients, problem.columns, np.random.default_rng(SEED))
        np.save(folder / "covariates.npy", drawn.covariates)
        np.save(folder / "time.npy", drawn.time)
        np.save(folder / "event.npy", drawn.event)
        np.save(folder / "log_risk.npy", drawn.log_risk)
    return folder


def read_patients(folder: Path, *, with_covariates: bool = True) -> Patients:
    """Read the patients back; without covariates, those stay on the disk."""
    return Patients(
        np.load(folder / "covariates.npy", mmap_mode=None if with_covariates else "r"),
        np.load(folder / "time.npy"),
        np.load(folder / "event.npy"),
        np.load(folder / "log_risk.npy"),
    )
