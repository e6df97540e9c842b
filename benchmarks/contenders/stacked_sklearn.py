"""The paper's stack, built in full and given to scikit-learn's logistic regression.

The stacking is timed: it is how this road begins. There are no standard errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import BoolArray, FloatArray, Patients
from benchmarks.problems import Problem


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Stack, then fit without a penalty to a gradient of 1e-6."""
    from sklearn.linear_model import LogisticRegression

    def run() -> Outcome:
        intervals, width = problem.intervals, problem.width
        if intervals is None or width is None:
            raise ValueError("Stacking every event time needs more memory than there is.")
        design, happened = stack(patients, intervals, width)
        model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-6, max_iter=2000)
        model.fit(design, happened)
        return Outcome(coefficients=model.coef_[0, intervals:].tolist())

    return run


def stack(patients: Patients, intervals: int, width: float) -> tuple[FloatArray, BoolArray]:
    """One row per patient and interval at risk: interval indicators, then the covariates.

    A patient censored in an interval is at risk in it.
    """
    rows = np.ceil(patients.time / width).astype(np.int64)  # of each patient
    patient = np.repeat(np.arange(rows.size), rows)
    ends = np.cumsum(rows)
    interval = np.arange(patient.size) - np.repeat(ends - rows, rows)
    happened = np.zeros(patient.size, dtype=np.bool_)
    happened[ends[patients.event] - 1] = True
    design = np.zeros((patient.size, intervals + patients.covariates.shape[1]))
    design[np.arange(patient.size), interval] = 1.0
    design[:, intervals:] = patients.covariates[patient]
    return design, happened
