"""fedcox: exact and grouped time, many centers, Cox's model, training, the c-index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

import fedcox
from benchmarks.contenders.contender import Outcome
from benchmarks.patients import Patients
from benchmarks.problems import FOLLOW_UP_DAYS, Problem

Link = Literal["cloglog", "logit"]
LINKS: tuple[Link, ...] = ("cloglog", "logit")
PIECES = 24


def prepare_exact(
    problem: Problem, patients: Patients, *, every_event: bool = False, threads: int = 1
) -> Callable[[], Outcome]:
    """Fit the piecewise-exponential model, as the estimator does, on all patients."""
    from fedcox.solvers.newton import Newton
    from fedcox.study.fit import estimate
    from fedcox.study.plan import Plan
    from fedcox.survival.link import LINKS
    from fedcox.survival.threads import at_most

    plan = Plan(
        columns=tuple(patients.column_names),
        link=LINKS["log"],
        reading="include",
        width=None,
        horizon=None,
        ridge=0.0,
        solver=Newton(),
        pieces=None if every_event else PIECES,
        every_event=every_event,
    )

    def run() -> Outcome:
        with at_most(threads):
            cohort = fedcox.Cohort(patients.covariates, patients.time, patients.event)
            found = estimate(plan, fedcox.InProcess.from_cohorts({"all": cohort}))
        return Outcome(
            coefficients=found.inference.coefficients.tolist(),
            standard_errors=found.inference.standard_errors.tolist(),
            rounds=found.rounds,
            bytes_up=found.bytes_up,
            bytes_down=found.bytes_down,
        )

    return run


def prepare(problem: Problem, patients: Patients, *, link: Link) -> Callable[[], Outcome]:
    """Fit the scikit-learn estimator on all patients."""
    horizon = None if problem.width is None else FOLLOW_UP_DAYS  # no width: every event time
    model = fedcox.DiscreteTimeCox(width=problem.width, horizon=horizon, link=link)

    def run() -> Outcome:
        model.fit(patients.covariates, (patients.time, patients.event))
        return Outcome(
            coefficients=model.coef_.tolist(),
            standard_errors=model.standard_errors_.tolist(),
            rounds=model.rounds_,
            bytes_up=model.bytes_up_,
            bytes_down=model.bytes_down_,
        )

    return run


def prepare_centers(
    problem: Problem, patients: Patients, *, link: Link, together: bool
) -> Callable[[], Outcome]:
    """Fit a study over the problem's centers, or over the same patients in one center."""
    study = fedcox.Study.parse(_study(problem, patients, link), source="benchmark")
    parts = np.array_split(np.arange(patients.time.size), 1 if together else problem.centers)
    federation = fedcox.InProcess.from_cohorts(
        {
            f"center {number}": fedcox.Cohort(
                patients.covariates[part], patients.time[part], patients.event[part], part
            )
            for number, part in enumerate(parts)
        }
    )

    def run() -> Outcome:
        fitted = fedcox.fit(study, federation)
        return Outcome(
            coefficients=[_known(row.coef) for row in fitted.coefficients],
            standard_errors=[_known(row.se) for row in fitted.coefficients],
            rounds=fitted.rounds,
            bytes_up=fitted.bytes_up,
            bytes_down=fitted.bytes_down,
        )

    return run


def prepare_cox(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Fit Cox's model on all patients in one center."""
    from fedcox.study.cox import fit_cox

    def run() -> Outcome:
        cohort = fedcox.Cohort(patients.covariates, patients.time, patients.event)
        found = fit_cox(fedcox.InProcess.from_cohorts({"all": cohort}))
        return Outcome(
            coefficients=found.coefficients.tolist(),
            standard_errors=found.standard_errors.tolist(),
            rounds=found.rounds,
            bytes_up=found.bytes_up,
            bytes_down=found.bytes_down,
        )

    return run


def prepare_training(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Train the paper's scheme on patients in one center."""
    from fedcox.evaluation.scheme import LinearRisk, Recipe
    from fedcox.evaluation.schemes import SCHEMES

    cohort = fedcox.Cohort(patients.covariates, patients.time, patients.event)
    federation = fedcox.InProcess.from_cohorts({"all": cohort})
    recipe = Recipe(cell_batches=problem.batches, cell_batch_size=problem.batch_size)

    def run() -> Outcome:
        trained = SCHEMES["DT-FL"].train(federation, recipe, seed=0)
        (model,) = trained.models
        if not isinstance(model, LinearRisk):
            raise TypeError("The discrete-time model is linear.")
        return Outcome(
            coefficients=model.coefficients.tolist(),
            rounds=trained.rounds,
            bytes_up=trained.bytes_up,
            bytes_down=trained.bytes_down,
        )

    return run


def prepare_concordance(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Count the concordant pairs of the true risk."""
    from fedcox.survival.concordance import concordance_index

    def run() -> Outcome:
        found = concordance_index(patients.time, patients.event, patients.log_risk)
        return Outcome(concordance=found.index)

    return run


def _study(problem: Problem, patients: Patients, link: Link) -> str:
    names = ", ".join(f'"{name}"' for name in patients.column_names)
    return f"""
covariates = [{names}]
[study]
name = "{problem.name}"
[outcome]
time = "time"
event = "event"
[grid]
width = {problem.width}
horizon = {FOLLOW_UP_DAYS}
[model]
link = "{link}"
"""


def _known(value: float | None) -> float:
    return float("nan") if value is None else value
