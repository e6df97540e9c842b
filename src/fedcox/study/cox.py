"""Cox's model over a federation: stratified by center, or pooled through WebDISCO's sums.

The default fit is another one, `study/fit.py`, whose sums add up over centers. With one center
both of these are the ordinary Cox model. The order is that of every fit: agree on scale, solve,
undo the scale, infer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.errors import CohortError, InputError
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.risk_set_sums import EventSumsAt, RiskSetSetting
from fedcox.federation.queries.stratified_cox import CoxSetting
from fedcox.federation.query import Federation
from fedcox.solvers.losses import StratifiedCoxLoss, WebDiscoLoss
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import (
    AbstractSolver,
    Loss,
    Patients,
    Point,
    Problem,
    Solution,
    full_curvature,
)
from fedcox.study.inference import inverse_information
from fedcox.study.scale import CommonScale, check_patients, common_scale
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.information import aliased_columns, separated_columns
from fedcox.survival.partial_likelihood import Ties
from fedcox.survival.risk_set_moments import EventSums
from fedcox.survival.scaling import Scaling

CoxLossName = Literal["stratified", "webdisco"]

#: A scaled column whose risk sets hold less than this part of its variance is constant in them.
_CONSTANT = 1e-11


@dataclass(frozen=True, eq=False)
class CoxFit:
    """Cox's model on the covariates as given.

    Arrays have one entry per column. A column that is constant, a combination of earlier ones,
    or the same for everyone in each risk set is marked `aliased`: its coefficient is zero, its
    standard error NaN. `separated` marks coefficients that grow without bound: value and
    standard error are where the search stopped and mean nothing.
    """

    coefficients: FloatArray
    standard_errors: FloatArray
    covariance: FloatArray  # (columns, columns)
    aliased: BoolArray
    separated: BoolArray
    mean: FloatArray  # of the covariates, over all centers
    spread: FloatArray
    log_likelihood: float  # without the penalty
    converged: bool
    patients: int
    events: int
    rounds: int
    bytes_up: int
    bytes_down: int


def fit_cox(
    federation: Federation,
    *,
    ties: Ties = "efron",
    ridge: float | FloatArray = 0.0,
    loss: CoxLossName = "stratified",
    solver: AbstractSolver | None = None,
    columns: Sequence[str] | None = None,
) -> CoxFit:
    """Fit Cox's model on all patients of a federation.

    ties        "efron" or "breslow"
    ridge       ridge / 2 · Σ coef² on the covariates as given; one number, or one a column
    loss        "stratified": every center with its own baseline, from sums that add up;
                "webdisco": one baseline for all, Breslow's ties only, from sums that give
                patients away and that centers refuse outside experiments
    solver      Newton if not given
    columns     names of the covariates, for messages
    """
    _check_choices(ties, loss, ridge)
    mark = federation.ledger.mark()
    penalised = bool(np.all(np.asarray(ridge) > 0))
    if loss == "webdisco":
        agreed = _agree_on_risk_sets(federation, columns, penalised)
    else:
        agreed = _agree_on_strata(federation, columns, penalised, ties)
    scaling = agreed.scaling
    given = np.broadcast_to(ridge, agreed.scale.mean.shape)[scaling.keep]
    problem = Problem(
        agreed.loss,
        np.zeros(0),
        np.zeros(scaling.keep.size),
        given / scaling.spread**2,
        agreed.patients,
        float(agreed.events),
    )
    solution = (solver or Newton()).minimise(federation, problem)
    separated = solution.separated
    if not penalised:
        separated = separated | _runaway(agreed, solution)
    rows = federation.ledger.since(mark)
    return _undone(
        agreed,
        solution,
        separated,
        penalty=0.5 * float(problem.ridge @ solution.beta**2),
        messages=(
            federation.ledger.rounds - mark[0],
            sum(row.bytes_up for row in rows),
            sum(row.bytes_down for row in rows),
        ),
    )


@dataclass(frozen=True, eq=False)
class _Agreed:
    """What is known before the first step: scale, loss, sizes."""

    scale: CommonScale
    scaling: Scaling  # of the columns that are fitted
    loss: Loss
    patients: int
    events: int
    without_effects: FloatArray  # information on the fitted columns at β = 0, or about that


def _agree_on_strata(
    federation: Federation, columns: Sequence[str] | None, penalised: bool, ties: Ties
) -> _Agreed:
    """Three rounds: sums, scatter, and the derivatives without effects."""
    sums, outcomes = federation.ask_together([CovariateSums(), OutcomeCounts()])
    check_patients(sums)
    _check_events(outcomes.events)
    mean = sums.mean
    scale = _scale(sums, mean, federation.ask(CovariateScatter(mean)), columns, penalised)
    loss = StratifiedCoxLoss(CoxSetting(scale.scaling, ties))
    beta = np.zeros(scale.scaling.keep.size)
    start = loss(federation, Point(np.zeros(0), beta), Detail.HESSIAN)
    information = full_curvature(start).beta
    told = _told(information, outcomes.events, penalised)
    if beta.size and not told.size:
        raise CohortError(
            "There is nothing to compare.",
            [
                "Nobody with an event is at risk together with a patient of the same center "
                "who differs in any covariate. Stratified by center, that tells nothing."
            ],
        )
    scaling = scale.scaling
    if told.size < beta.size:
        scaling = Scaling(scaling.keep[told], scaling.mean[told], scaling.spread[told])
        loss = StratifiedCoxLoss(CoxSetting(scaling, ties))
        start, information = _columns_of(start, told), information[np.ix_(told, told)]
    return _Agreed(
        scale,
        scaling,
        _KnownAtStart(loss, start),
        sums.patients,
        outcomes.events,
        information,
    )


def _agree_on_risk_sets(
    federation: Federation, columns: Sequence[str] | None, penalised: bool
) -> _Agreed:
    """Two rounds: sums and event times, then scatter and the events' own sums."""
    sums, times = federation.ask_together([CovariateSums(), EventTimes()])
    check_patients(sums)
    mean = sums.mean
    # `EventTimes` leaves out zero, no instant of a grid; here it is a time like others.
    times = np.concatenate(([0.0], times))
    scatter, found = federation.ask_together([CovariateScatter(mean), EventSumsAt(times, mean)])
    events = int(found.events.sum())
    _check_events(events)
    scale = _scale(sums, mean, scatter, columns, penalised)
    scaling = scale.scaling
    happens = found.events > 0
    loss = WebDiscoLoss(
        RiskSetSetting(scaling, times[happens]),
        EventSums(found.events[happens], found.covariates[scaling.keep] / scaling.spread),
    )
    return _Agreed(scale, scaling, loss, sums.patients, events, events * scale.correlation)


def _scale(
    sums: ColumnSums,
    mean: FloatArray,
    scatter: FloatArray,
    columns: Sequence[str] | None,
    penalised: bool,
) -> CommonScale:
    names = columns or [f"x{number}" for number in range(1, mean.size + 1)]
    return common_scale(mean, scatter, sums.patients, columns=names, penalised=penalised)


def _told(information: FloatArray, events: int, penalised: bool) -> IntArray:
    """Columns about which the risk sets tell something that the columns before do not.

    A covariate that differs between centers only is constant in every stratum.
    """
    varies = np.flatnonzero(np.diag(information) > _CONSTANT * events)
    if penalised:
        return np.arange(len(information)) if varies.size else varies
    among = information[np.ix_(varies, varies)]
    return varies[~aliased_columns(among, np.ones(varies.size, dtype=np.bool_))]


def _columns_of(start: Derivatives, told: IntArray) -> Derivatives:
    curvature = full_curvature(start)
    square = curvature.beta[np.ix_(told, told)]
    return Derivatives(
        start.loss,
        start.alpha,
        start.beta[told],
        Curvature(curvature.alpha, np.zeros((0, told.size)), square),
    )


@dataclass(frozen=True, eq=False)
class _KnownAtStart:
    """A loss whose derivatives at β = 0 are known already, which saves a solver that round."""

    loss: Loss
    start: Derivatives  # with the Hessian

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        if batch is not None or at.beta.any():
            return self.loss(federation, at, detail, batch)
        return self.start._replace(curvature=self._curvature(detail))

    def _curvature(self, detail: Detail) -> Curvature | None:
        known = full_curvature(self.start)
        if detail is Detail.GRADIENT:
            return None
        if detail is Detail.DIAGONAL:
            return Curvature(known.alpha, None, np.diag(known.beta))
        return known._replace(cross=None) if detail is Detail.BLOCK else known


def _runaway(agreed: _Agreed, solution: Solution) -> BoolArray:
    """Coefficients that grew without bound, whichever solver gave up on them."""
    return separated_columns(solution.information.beta, agreed.without_effects)


def _undone(
    agreed: _Agreed,
    solution: Solution,
    separated: BoolArray,
    *,
    penalty: float,
    messages: tuple[int, int, int],
) -> CoxFit:
    """The solution on the covariates as given; the observed information gives the errors."""
    scaling, columns = agreed.scaling, agreed.scale.mean.size
    keep = scaling.keep
    coefficients = np.zeros(columns)
    coefficients[keep] = scaling.coefficients(solution.beta)
    covariance = np.full((columns, columns), np.nan)
    covariance[np.ix_(keep, keep)] = scaling.covariance(
        inverse_information(solution.information.beta)
    )
    runaway = np.zeros(columns, dtype=np.bool_)
    runaway[keep] = separated
    rounds, bytes_up, bytes_down = messages
    return CoxFit(
        coefficients=coefficients,
        standard_errors=np.sqrt(np.diag(covariance)),
        covariance=covariance,
        aliased=~np.isin(np.arange(columns), keep),
        separated=runaway,
        mean=agreed.scale.mean,
        spread=agreed.scale.spread,
        log_likelihood=penalty - solution.loss,
        converged=solution.converged,
        patients=agreed.patients,
        events=agreed.events,
        rounds=rounds,
        bytes_up=bytes_up,
        bytes_down=bytes_down,
    )


def _check_choices(ties: str, loss: str, ridge: float | FloatArray) -> None:
    faults = []
    if ties not in ("efron", "breslow"):
        faults.append(f"ties is {ties!r}; it must be 'efron' or 'breslow'.")
    if loss not in ("stratified", "webdisco"):
        faults.append(f"loss is {loss!r}; it must be 'stratified' or 'webdisco'.")
    if loss == "webdisco" and ties == "efron":
        faults.append("WebDISCO's sums know Breslow's ties only; say ties='breslow'.")
    if not np.all(np.isfinite(ridge)) or np.any(np.asarray(ridge) < 0):
        faults.append("ridge must be finite and not negative.")
    if faults:
        raise InputError("Cox's model cannot be fitted like this.", faults)


def _check_events(events: int) -> None:
    if not events:
        raise CohortError(
            "No center has an event.", ["Check the event column against the files."]
        )
