"""skglm: Cox's model by L-BFGS on compiled code, which has no standard errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem

#: Of the mean gradient: coefficients to about a ten-thousandth of a standard error.
_TOLERANCE = 1e-8
_MAX_STEPS = 1000


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Fit Cox's model with Breslow's ties and no penalty; compiled before, with the warm-up."""
    from skglm.datafits import Cox
    from skglm.penalties import L2
    from skglm.solvers import LBFGS

    # Column by column, as its estimator has them.
    covariates = np.asfortranarray(patients.covariates)
    outcome = np.array([patients.time, patients.event], dtype=np.float64).T
    solver = LBFGS(max_iter=_MAX_STEPS, tol=_TOLERANCE)

    def run() -> Outcome:
        coefficients, _, _ = solver.solve(covariates, outcome, Cox(), L2(0.0))
        return Outcome(coefficients=coefficients.tolist())

    return run
