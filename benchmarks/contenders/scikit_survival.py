"""scikit-survival: `CoxPHSurvivalAnalysis`, which has no standard errors."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Fit Cox's model on arrays, with scikit-survival's defaults."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.util import Surv

    outcome = Surv.from_arrays(patients.event, patients.time)

    def run() -> Outcome:
        model = CoxPHSurvivalAnalysis().fit(patients.covariates, outcome)
        return Outcome(coefficients=model.coef_.tolist())

    return run
