"""Schemes that take no time and do one thing each, to test what is around them."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, FedcoxWarning
from fedcox.evaluation.scheme import AbstractScheme, LinearRisk, Recipe, Trained
from fedcox.federation.batch import PatientBatch
from fedcox.survival.cohort import FloatArray


def one_column(columns: int, sign: float = 1.0) -> LinearRisk:
    """The first covariate is the risk."""
    weights = np.zeros(columns)
    weights[0] = sign
    return LinearRisk(weights, np.zeros(columns))


def columns_of(federation: InProcess) -> int:
    return federation.centers[0].cohort.columns


@dataclass(frozen=True)
class FirstColumn(AbstractScheme):
    """Learns nothing; `pause` makes it slow."""

    name: str = "FIRST"
    summary: str = "The first covariate"
    federated: bool = True
    pause: float = 0.0

    def settings(self) -> dict[str, Any]:
        return {}  # a pause changes no number

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        time.sleep(self.pause)
        return Trained((one_column(columns_of(federation)),), rounds=2, bytes_up=8)


@dataclass(frozen=True)
class Dice(AbstractScheme):
    """Draws its coefficients."""

    name: str = "DICE"
    summary: str = "Chance"
    federated: bool = False
    pause: float = 0.0

    def settings(self) -> dict[str, Any]:
        return {}  # a pause changes no number

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        time.sleep(self.pause)
        drawn = np.random.default_rng(seed).normal(size=columns_of(federation))
        return Trained((LinearRisk(drawn, np.zeros(drawn.size)),), notes=(f"{seed}",))


@dataclass(frozen=True)
class BatchMean(AbstractScheme):
    """The mean of a batch drawn over all training patients, whoever holds them."""

    name: str = "BATCH"
    summary: str = "The mean covariates of a batch"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        cohorts = [center.cohort for center in federation.centers]
        numbers = np.concatenate([cohort.number for cohort in cohorts])
        assert sorted(numbers) == list(range(numbers.size))
        rows: FloatArray = np.empty((numbers.size, columns_of(federation)))
        rows[numbers] = np.concatenate([cohort.covariates for cohort in cohorts])
        drawn = rows[PatientBatch(seed, 0, 5, numbers.size).numbers()].mean(axis=0)
        return Trained((LinearRisk(drawn, np.zeros(drawn.size)),))


@dataclass(frozen=True)
class ForAndAgainst(AbstractScheme):
    """Two models that contradict each other, with warnings on the way."""

    name: str = "BOTH"
    summary: str = "Two models"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        warnings.warn("Two opinions.", FedcoxWarning, stacklevel=2)
        columns = columns_of(federation)
        return Trained((one_column(columns), one_column(columns, -1.0)), notes=("Torn.",))


@dataclass(frozen=True)
class Silent(AbstractScheme):
    """Cannot train: `loudly` with an error, else with no model."""

    loudly: bool = True
    name: str = "NONE"
    summary: str = "Nothing"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        if self.loudly:
            raise CohortError("No center has an event.", ["Look again."])
        return Trained((), notes=("Every center is too small.",))


@dataclass(frozen=True)
class Blind(AbstractScheme):
    """Gives no risk to anybody."""

    name: str = "BLIND"
    summary: str = "Not a number"
    federated: bool = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        missing = np.full(columns_of(federation), np.nan)
        return Trained((Nowhere(missing),))


@dataclass(frozen=True, eq=False)
class Nowhere:
    values: FloatArray

    def risk(self, covariates: FloatArray) -> FloatArray:
        return np.full(len(covariates), np.nan)
