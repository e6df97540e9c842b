"""lifelines: `CoxPHFitter`, and its c-index."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Fit Cox's model on a frame, with lifelines' defaults."""
    import pandas as pd
    from lifelines import CoxPHFitter

    frame = pd.DataFrame(patients.covariates, columns=patients.column_names)
    frame["time"] = patients.time
    frame["event"] = patients.event

    def run() -> Outcome:
        model = CoxPHFitter().fit(frame, "time", "event")
        return Outcome(
            coefficients=model.params_.tolist(), standard_errors=model.standard_errors_.tolist()
        )

    return run


def prepare_concordance(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Compute lifelines' index, which expects a higher score for a longer life."""
    from lifelines.utils import concordance_index

    def run() -> Outcome:
        index = concordance_index(patients.time, -patients.log_risk, patients.event)
        return Outcome(concordance=float(index))

    return run
