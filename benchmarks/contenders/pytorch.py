"""PyTorch: the paper's training loop, as one would write it, over rows of the stack.

The indices of every stacked row are there before the clock starts; the design matrix with its
millions of rows is never built.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem

_LEARNING_RATE = 1e-3


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Stack the indices; then train α and β by Adam in torch's own precision."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    patient, interval, event = stacked_indices(patients)
    spread = patients.covariates.std(axis=0)
    covariates = torch.tensor(
        (patients.covariates - patients.covariates.mean(axis=0)) / spread, dtype=torch.float32
    )
    of_patient, of_interval = torch.from_numpy(patient), torch.from_numpy(interval)
    happened = torch.from_numpy(event.astype(np.float32))

    def run() -> Outcome:
        generator = torch.Generator().manual_seed(0)
        alpha = torch.nn.Parameter(torch.zeros(int(interval.max()) + 1))
        beta = torch.nn.Parameter(torch.zeros(covariates.shape[1]))
        loss_of = torch.nn.BCEWithLogitsLoss()
        optimiser = torch.optim.Adam([alpha, beta], lr=_LEARNING_RATE)
        shape = problem.batches, problem.batch_size
        for rows in torch.randint(len(patient), shape, generator=generator):
            optimiser.zero_grad()
            logits = alpha[of_interval[rows]] + covariates[of_patient[rows]] @ beta
            loss_of(logits, happened[rows]).backward()
            optimiser.step()
        return Outcome(coefficients=(beta.detach().double().numpy() / spread).tolist())

    return run


def stacked_indices(
    patients: Patients,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Patient, interval and event of every row; an interval is a distinct event time.

    Everyone still observed at an event time has a row there.
    """
    times = np.unique(patients.time[patients.event])
    rows = np.searchsorted(times, patients.time, side="right")
    patient = np.repeat(np.arange(rows.size), rows)
    ends = np.cumsum(rows)
    interval = np.arange(patient.size) - np.repeat(ends - rows, rows)
    happened = np.zeros(patient.size, dtype=np.bool_)
    happened[ends[patients.event] - 1] = True
    return patient, interval, happened
