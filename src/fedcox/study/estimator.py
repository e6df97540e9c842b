"""Survival models as scikit-learn estimators, for one table of patients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedcox.errors import StudyError
from fedcox.study.abstract_estimator import AbstractSurvivalEstimator, Missing
from fedcox.study.estimator_input import (
    edges_of,
)
from fedcox.study.plan import SOLVERS, Plan
from fedcox.study.study_rules import grid_faults
from fedcox.survival.link import LINKS, LinkName

if TYPE_CHECKING:
    Objects = np.ndarray[Any, np.dtype[np.object_]]


class ProportionalHazards(AbstractSurvivalEstimator):
    """Proportional hazards for one table of patients, as a scikit-learn estimator.

        λ(t | x) = λ_k · exp(β·x)        for t in piece k of time
        S(t | x) = exp(−Λ(t) · exp(β·x)),    Λ(t) the sum of λ_k · (time in piece k up to t)

    pieces      how many pieces of time, with about equally many events in each; None takes one
                for every event time, where the model is Cox's with Efron's ties, up to 400
    edges       where pieces end, in place of `pieces`; the first begins at zero
    horizon     end of follow-up, in the unit of time; None takes the longest
    ridge       ridge / 2 · Σ coef² on the covariates as given
    missing     "refuse", "drop" or "mean": what becomes of a patient without some value in X
    threads     how many at most; None takes OMP_NUM_THREADS, or one for every core

    `y` is scikit-survival's structured array, a (time, event) pair, or two columns time, event.
    After `fit`, `coef_` and `covariance_` have the coefficients and their covariance matrix,
    `summary_` and `baseline_` are tables, `concordance_index_` is these patients' c-index.

    >>> import numpy as np
    >>> import fedcox
    >>> from fedcox.data.synthetic import simulate_hospitals
    >>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
    >>> X, y = patients[["age", "marker"]], (patients["time"], patients["status"])
    >>> model = fedcox.ProportionalHazards().fit(X, y)
    >>> model.coef_.round(3), round(model.score(X, y), 3)
    (array([0.028, 0.165]), 0.588)

    Next: `summary_`, `predict(X)` (log risk), `predict_survival_function(X)`; any pipeline or
    grid search. For patients of several hospitals `fedcox.fit`.
    """

    def __init__(
        self,
        pieces: int | None = None,
        edges: Sequence[float] | None = None,
        horizon: float | None = None,
        ridge: float = 0.0,
        missing: Missing = "refuse",
        threads: int | None = None,
    ) -> None:
        self.pieces = pieces
        self.edges = edges
        self.horizon = horizon
        self.ridge = ridge
        self.missing = missing
        self.threads = threads

    def _plan(self, columns: tuple[str, ...]) -> Plan:
        self._check_settings(choices={}, positive=("horizon",), whole=("pieces", "threads"))
        edges = edges_of(self.edges)
        grid = {"pieces": self.pieces, "edges": edges, "horizon": self.horizon}
        faults = list(grid_faults(grid))
        if faults:
            raise StudyError("These settings cannot be used.", faults)
        return Plan(
            columns=columns,
            link=LINKS["log"],
            reading="include",
            width=None,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS["newton"](),
            pieces=self.pieces,
            edges=edges,
        )


class DiscreteTimeCox(AbstractSurvivalEstimator):
    """The paper's discrete-time Cox regression, on grouped time, as a scikit-learn estimator.

    The chance p_m of the event in interval m, for who reached it:

        cloglog  p_m = 1 − exp(−exp(α_m + β·x))        logit  p_m = 1 / (1 + exp(−α_m − β·x))
        S(end of interval m | x) = (1 − p_1) · … · (1 − p_m)

    Near a Cox model where intervals are narrow, and possibly far from it where they are wide;
    `ProportionalHazards` counts the time inside them, too.

    width       interval width in the unit of time; None takes every distinct event time
    horizon     end of follow-up, in the unit of time; None takes the longest
    link        "cloglog" (exp(coef) is a hazard ratio) or "logit" (a hazard odds ratio)
    censored_interval   "include", "exclude" or "half": a patient censored inside an interval
    ridge       ridge / 2 · Σ coef² on the covariates as given
    solver      "newton", "lbfgs" or "adam"
    missing     "refuse", "drop" or "mean": what becomes of a patient without some value in X
    threads     how many at most; None takes OMP_NUM_THREADS, or one for every core

    `y` is scikit-survival's structured array, a (time, event) pair, or two columns time, event.
    After `fit`, `coef_` and `covariance_` have the coefficients and their covariance matrix,
    `summary_` and `baseline_` are tables, `concordance_index_` is these patients' c-index.

    >>> import numpy as np
    >>> import fedcox
    >>> from fedcox.data.synthetic import simulate_hospitals
    >>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
    >>> X, y = patients[["age", "marker"]], (patients["time"], patients["status"])
    >>> model = fedcox.DiscreteTimeCox(width=90, horizon=1500).fit(X, y)
    >>> model.coef_.round(3)
    array([0.029, 0.163])

    Next: `summary_`, `baseline_`, `predict_survival_function(X)`; over several hospitals
    `fedcox.fit` of a study with `grid={"width": 90}` and `model={"link": "cloglog"}`.
    """

    def __init__(
        self,
        width: float | None = None,
        horizon: float | None = None,
        link: LinkName = "cloglog",
        censored_interval: Literal["include", "exclude", "half"] = "include",
        ridge: float = 0.0,
        solver: Literal["newton", "lbfgs", "adam"] = "newton",
        missing: Missing = "refuse",
        threads: int | None = None,
    ) -> None:
        self.width = width
        self.horizon = horizon
        self.link = link
        self.censored_interval = censored_interval
        self.ridge = ridge
        self.solver = solver
        self.missing = missing
        self.threads = threads

    def _plan(self, columns: tuple[str, ...]) -> Plan:
        self._check_settings(
            choices={
                "link": tuple(name for name, link in LINKS.items() if link.grouped),
                "solver": ("newton", "lbfgs", "adam"),  # the others need several centers
                "censored_interval": ("include", "exclude", "half"),
            },
            positive=("width", "horizon"),
            whole=("threads",),
        )
        return Plan(
            columns=columns,
            link=LINKS[self.link],
            reading=self.censored_interval,
            width=self.width,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS[self.solver](),
        )
