"""Where is the optimum? By the plainest route, to hold every contender's coefficients against.

Uses none of the contenders and none of fedcox. Slow on purpose: no trick that could be wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.patients import BoolArray, FloatArray, Patients, read_patients

Model = Literal["cox", "logit", "cloglog"]
_TOLERANCE = 1e-11
_MAX_STEPS = 100


@dataclass(frozen=True, eq=False)
class Optimum:
    coefficients: FloatArray
    standard_errors: FloatArray

    def save(self, file: Path) -> None:
        np.savez(file, coefficients=self.coefficients, standard_errors=self.standard_errors)

    @classmethod
    def read(cls, file: Path) -> Optimum:
        with np.load(file) as stored:
            return cls(stored["coefficients"], stored["standard_errors"])


def optimum(patients: Patients, model: Model, width: float | None) -> Optimum:
    """Maximise the likelihood of Cox's model, or of the discrete model with `width`."""
    if model == "cox":
        return cox_optimum(patients)
    if width is None:
        raise ValueError("A discrete model needs the width of its intervals.")
    return discrete_optimum(patients, model, width)


def cox_optimum(patients: Patients) -> Optimum:
    """Newton's method on Breslow's partial likelihood."""
    order = np.argsort(-patients.time)  # a risk set is now everyone up to its last patient
    covariates, time, event = (
        patients.covariates[order],
        patients.time[order],
        patients.event[order],
    )
    last_at_risk = np.searchsorted(-time, -time[event], side="right") - 1
    observed = covariates[event].sum(axis=0)

    def step(beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        risk = np.exp(covariates @ beta)
        total = np.cumsum(risk)[last_at_risk]
        mean = np.cumsum(risk[:, None] * covariates, axis=0)[last_at_risk] / total[:, None]
        shares = np.bincount(last_at_risk, weights=1 / total, minlength=time.size)
        weight = risk * np.cumsum(shares[::-1])[::-1]  # over all risk sets the patient is in
        information = covariates.T @ (weight[:, None] * covariates) - mean.T @ mean
        return observed - mean.sum(axis=0), information

    return _maximise(step, covariates.shape[1])


def discrete_optimum(
    patients: Patients, link: Literal["logit", "cloglog"], width: float
) -> Optimum:
    """Fisher scoring on the stacked likelihood, one interval after the other.

    A patient censored in an interval is at risk in it. Intervals without an event, or with
    nothing but events, say nothing about beta and are left out.
    """
    interval = np.ceil(patients.time / width).astype(np.int64)  # 1, 2, …
    order = np.argsort(-interval, kind="stable")
    covariates, event, interval = (
        patients.covariates[order],
        patients.event[order],
        interval[order],
    )
    numbers = np.arange(1, interval[0] + 1)
    at_risk = np.searchsorted(-interval, -numbers, side="right")
    events = np.bincount(interval[event], minlength=numbers.size + 1)[1:]
    kept = np.flatnonzero((events > 0) & (events < at_risk))
    hazard = events[kept] / at_risk[kept]
    alpha = np.log(hazard / (1 - hazard)) if link == "logit" else np.log(-np.log1p(-hazard))
    cell = _logit_cell if link == "logit" else _cloglog_cell

    def step(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        eta = covariates @ parameters[kept.size :]
        score, weight = np.zeros(eta.size), np.zeros(eta.size)  # summed over intervals
        score_alpha, weight_alpha = np.empty(kept.size), np.empty(kept.size)
        cross = np.empty((kept.size, covariates.shape[1]))
        for row, (place, shift) in enumerate(zip(kept, parameters, strict=False)):
            there = slice(at_risk[place])
            happened = event[there] & (interval[there] == place + 1)
            cell_score, cell_weight = cell(shift + eta[there], happened)
            score[there] += cell_score
            weight[there] += cell_weight
            score_alpha[row], weight_alpha[row] = cell_score.sum(), cell_weight.sum()
            cross[row] = cell_weight @ covariates[there]
        curvature = covariates.T @ (weight[:, None] * covariates)
        information = np.block([[np.diag(weight_alpha), cross], [cross.T, curvature]])
        return np.concatenate([score_alpha, covariates.T @ score]), information

    solved = _maximise(step, kept.size + covariates.shape[1], start=alpha)
    return Optimum(solved.coefficients[kept.size :], solved.standard_errors[kept.size :])


def _logit_cell(eta: FloatArray, happened: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Score and information of each patient in one interval, with respect to `eta`."""
    hazard = 1 / (1 + np.exp(-eta))
    return happened - hazard, hazard * (1 - hazard)


def _cloglog_cell(eta: FloatArray, happened: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Score and expected information of each patient in one interval."""
    rate = np.exp(eta)
    ratio = rate / np.expm1(rate)
    return np.where(happened, ratio, -rate), rate * ratio


def _maximise(
    step: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    size: int,
    start: FloatArray | None = None,
) -> Optimum:
    parameters = np.zeros(size)
    if start is not None:
        parameters[: start.size] = start
    for _ in range(_MAX_STEPS):
        score, information = step(parameters)
        move = np.linalg.solve(information, score)
        parameters = parameters + move
        if np.abs(move).max() < _TOLERANCE:
            return Optimum(parameters, np.sqrt(np.diag(np.linalg.inv(information))))
    raise RuntimeError(f"The reference did not settle in {_MAX_STEPS} steps.")


def main() -> None:
    """Compute one reference in a process of its own, so that its memory goes with it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", choices=["cox", "logit", "cloglog"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--width", type=float)
    given = parser.parse_args()
    optimum(read_patients(given.folder), given.model, given.width).save(given.file)


if __name__ == "__main__":
    main()
