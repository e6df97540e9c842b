"""Invented patients whose replies are easy to read: what attacks are tried on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.evaluation.attacks.attack_setting import TruePatients
from fedcox.evaluation.attacks.observed_sums import (
    ALL_CENTERS,
    LifeTable,
    ObservedSource,
    Recorder,
    sources,
)
from fedcox.federation.center import Center
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import CensoredInterval

Cohorts = Mapping[str, Cohort]


def sparse_tail(patients: int, columns: int, seed: int, centers: int = 1) -> dict[str, Cohort]:
    """The paper's patients, but censored exponentially: few are at risk at the end."""
    rng = np.random.default_rng(seed)
    covariates = rng.standard_normal((patients, columns)) / np.sqrt(columns)
    return followed(covariates, rng, centers)


def followed(
    covariates: FloatArray, rng: np.random.Generator, centers: int
) -> dict[str, Cohort]:
    """Follow-up of such patients, dealt out over centers; time in units of a mean survival."""
    scaled = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    effects = rng.standard_normal(covariates.shape[1]) / np.sqrt(covariates.shape[1])
    survival = rng.exponential(size=len(covariates)) / np.exp(scaled @ effects)
    censoring = rng.exponential(size=len(covariates))
    time, event = np.minimum(survival, censoring), survival <= censoring
    return {
        f"center {k}": Cohort(covariates[k::centers], time[k::centers], event[k::centers])
        for k in range(centers)
    }


def heavy_tailed(patients: int, columns: int, seed: int, centers: int) -> dict[str, Cohort]:
    """Covariates such as laboratory values: a few patients are far out."""
    rng = np.random.default_rng(seed)
    return followed(rng.standard_t(2, size=(patients, columns)), rng, centers)


def categories(patients: int, columns: int, seed: int, centers: int) -> dict[str, Cohort]:
    """Indicators of levels, nothing else; many patients are alike."""
    rng = np.random.default_rng(seed)
    levels = (rng.uniform(size=(patients, columns)) < 0.4).astype(np.float64)
    return followed(levels, rng, centers)


def level_combinations(patients: int, seed: int, centers: int) -> dict[str, Cohort]:
    """Every level is shared by many, and some combinations by nobody else."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(size=(patients, 4)) < np.array([0.5, 0.12, 0.1, 0.1])
    numbers = rng.standard_normal((patients, 2))
    return followed(np.column_stack([levels.astype(np.float64), numbers]), rng, centers)


def plan(
    cohorts: Cohorts,
    solver: AbstractSolver,
    intervals: int,
    link: str = "cloglog",
    reading: CensoredInterval = "include",
) -> Plan:
    """So many intervals up to the longest follow-up."""
    columns = next(iter(cohorts.values())).columns
    longest = max(float(cohort.time.max()) for cohort in cohorts.values())
    return Plan(
        columns=tuple(f"x{number}" for number in range(columns)),
        link=LINKS[link],
        reading=reading,
        width=longest / intervals,
        horizon=longest,
        ridge=0.0,
        solver=solver,
    )


def in_the_open(cohorts: Cohorts) -> InProcess:
    return InProcess(
        [Center(name, cohort, allow_experiments=True) for name, cohort in cohorts.items()]
    )


def recorded(
    chosen: Plan, cohorts: Cohorts, federation: Federation
) -> tuple[dict[str, ObservedSource], Setting, TruePatients]:
    """The messages of a fit, source by source; the setting; and whom to look for."""
    recorder = Recorder(federation)
    found: Estimate = estimate(chosen, recorder)
    setting = found.agreement.setting
    tables = life_tables(cohorts, setting, apart=federation.shows_centers)
    truth = TruePatients.of(list(cohorts.values()), setting)
    return sources(recorder.exchanges, setting, tables), setting, truth


def life_tables(cohorts: Cohorts, setting: Setting, *, apart: bool) -> dict[str, LifeTable]:
    query = IntervalCounts(setting.grid, setting.reading)
    counts = {name: query.answer(cohort) for name, cohort in cohorts.items()}
    if not apart:
        first, *others = counts.values()
        counts = {ALL_CENTERS: sum(others, first)}
    return {name: LifeTable.of(own, setting) for name, own in counts.items()}


def under_masks(cohorts: Cohorts) -> Masked:
    return Masked.around(in_the_open(cohorts))
