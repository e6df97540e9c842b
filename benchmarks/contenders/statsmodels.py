"""statsmodels: `PHReg`."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Fit Cox's model on arrays, with statsmodels' defaults."""
    from statsmodels.duration.hazard_regression import PHReg

    def run() -> Outcome:
        model = PHReg(patients.time, patients.covariates, status=patients.event).fit()
        return Outcome(coefficients=model.params.tolist(), standard_errors=model.bse.tolist())

    return run
