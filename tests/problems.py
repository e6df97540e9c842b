"""Named cohorts and choices that product tests draw from."""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import CensoredInterval, TimeGrid

LINK_NAMES = tuple(name for name, link in LINKS.items() if link.grouped)
READINGS: tuple[CensoredInterval, ...] = ("include", "exclude", "half")


def simulated(
    patients: int = 200, columns: int = 3, seed: int = 0, unit: float = 100.0
) -> Cohort:
    """A cohort with effects, about half of it censored; times in whole units, so tied."""
    rng = np.random.default_rng(seed)
    covariates = rng.normal(size=(patients, columns))
    effects = np.linspace(-0.6, 0.8, columns)
    event_time = rng.exponential(size=patients) * np.exp(-covariates @ effects)
    censoring = rng.uniform(0.0, 2.0, size=patients)
    time = np.ceil(unit * np.minimum(event_time, censoring))
    return Cohort(covariates, time, event_time <= censoring)


def untied(cohort: Cohort, seed: int = 1) -> Cohort:
    """The same patients with all times distinct."""
    rng = np.random.default_rng(seed)
    return Cohort(
        cohort.covariates, cohort.time + rng.uniform(-0.5, 0.0, cohort.patients), cohort.event
    )


def split(cohort: Cohort, center: IntArray, centers: int) -> dict[str, Cohort]:
    """Centers 0 … centers − 1; some may be empty. Patients keep their numbers."""
    return {
        f"center {k:02d}": Cohort(
            cohort.covariates[center == k],
            cohort.time[center == k],
            cohort.event[center == k],
            cohort.number[center == k],
        )
        for k in range(centers)
    }


def grids(cohort: Cohort) -> dict[str, TimeGrid]:
    """One grid of each kind for a cohort."""
    return {
        "intervals": TimeGrid.regular(20.0, float(cohort.time.max())),
        "short horizon": TimeGrid.regular(30.0, 100.0),
        "event times": TimeGrid.at_events(cohort.time[cohort.event]),
    }


def close(left: FloatArray, right: FloatArray, tolerance: float) -> bool:
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance))
