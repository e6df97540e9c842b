"""One study, start to end: agree on time and scale, solve, undo the scale, infer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from fedcox.federation.ledger import LedgerRow
from fedcox.federation.query import Federation
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.solver import Beforehand, Problem, Solution, Watcher
from fedcox.study.agreement import Agreement, agree
from fedcox.study.fit_rows import BaselineInterval, CenterRow, Notice, RoundRow, versions
from fedcox.study.fitted import FittedStudy
from fedcox.study.inference import Inference, coefficient_rows, infer, likelihood_ratio
from fedcox.study.notices import exact_sums, filled_cells, lost_centers, notices, warn_of
from fedcox.study.plan import Plan
from fedcox.study.restart import CentersLostError, RestartOnLoss
from fedcox.study.study import Study
from fedcox.survival.cohort import FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.information import separated_columns
from fedcox.survival.scaling import linear_predictor
from fedcox.survival.spline_baseline import without_effects
from fedcox.survival.time_grid import Pieces

#: Per-center counts are kept for the report up to this many intervals.
_INTERVALS_PER_CENTER = 400


@dataclass(frozen=True, eq=False)
class Estimate:
    """The fit on the covariates as given, before it is put into words."""

    plan: Plan
    agreement: Agreement
    solution: Solution
    inference: Inference
    alpha: FloatArray  # (fitted intervals,) at covariates of zero
    ledger: tuple[LedgerRow, ...]
    rounds: int
    lost: tuple[str, ...] = ()  # centers that stopped answering on the way

    @property
    def bytes_up(self) -> int:
        return sum(row.bytes_up for row in self.ledger)

    @property
    def bytes_down(self) -> int:
        return sum(row.bytes_down for row in self.ledger)

    @property
    def log_likelihood(self) -> float:
        return _log_density(self.agreement) - self.solution.loss + self.inference.penalty


def estimate(
    plan: Plan, federation: Federation, watch: Watcher = lambda step: None
) -> Estimate:
    """The order of a study: time, scale, optimum, scale undone, inference."""
    mark, begun = federation.ledger.mark(), federation.names
    attended = RestartOnLoss(federation)
    agreement, problem, solution = _solved(plan, attended, watch)
    solution = with_separation(plan, agreement, solution)
    inference = infer(agreement, problem, solution)
    setting = agreement.setting
    alpha = setting.scaling.intercepts(setting.alpha(solution.alpha), solution.beta)
    ledger = federation.ledger
    return Estimate(
        plan,
        agreement,
        solution,
        inference,
        alpha,
        ledger.since(mark),
        ledger.rounds - mark[0],
        tuple(name for name in begun if name not in attended.names),
    )


def _solved(
    plan: Plan, attended: RestartOnLoss, watch: Watcher
) -> tuple[Agreement, Problem, Solution]:
    """Agree and solve; and again where a center stopped answering on the way.

    So every number is about the patients of the centers that are left. The solver starts anew
    from where it was.
    """
    before: Agreement | None = None
    while True:
        try:
            agreement = agree(plan, attended)
            problem = start(plan, agreement)
            if before is not None and attended.point is not None:
                problem = _from_there(problem, agreement, before, *attended.point)
            before = agreement
            return agreement, problem, plan.solver.minimise(attended, problem, watch)
        except CentersLostError:
            continue


def start(plan: Plan, agreement: Agreement) -> Problem:
    """Start without effects: α at the observed share of events in each interval."""
    setting, events = agreement.setting, agreement.events
    if setting.basis is None:
        alpha = plan.link.intercept(events / agreement.at_risk)
    else:
        alpha, _ = _smooth_without_effects(agreement)
    # The study's penalty is on the coefficients as given, the solver's on the scaled ones.
    ridge = plan.ridge / setting.scaling.spread**2
    closed = not plan.link.grouped and setting.basis is None  # the best baseline for any β
    return Problem(
        DiscreteTimeLoss(setting),
        alpha,
        np.zeros(setting.columns),
        ridge,
        agreement.counts.patients,
        float(events.sum()),
        Beforehand(events, agreement.correlation) if closed else None,
    )


def _smooth_without_effects(agreement: Agreement) -> tuple[FloatArray, float]:
    """A spline's numbers without covariates, and the loss there."""
    setting = agreement.setting
    if setting.basis is None:
        raise ValueError("This baseline is no spline.")
    offset = setting.alpha(np.zeros(setting.baseline_size))
    return without_effects(setting.basis, offset, agreement.at_risk, agreement.events)


def _null_loss(plan: Plan, agreement: Agreement) -> float:
    """Of a model without covariates."""
    if agreement.setting.basis is not None:
        return _smooth_without_effects(agreement)[1]
    return plan.link.null_loss(agreement.at_risk, agreement.events)


def _from_there(
    problem: Problem,
    agreement: Agreement,
    before: Agreement,
    alpha: FloatArray,
    beta: FloatArray,
) -> Problem:
    """Start from parameters that were asked about on the scale of another agreement."""
    old, new = before.setting.scaling, agreement.setting.scaling
    given = np.zeros(agreement.mean.size)
    given[old.keep] = old.coefficients(beta)
    start = replace(problem, beta=given[new.keep] * new.spread)
    last, now = before.setting, agreement.setting
    same = np.array_equal(last.grid.edges[last.active], now.grid.edges[now.active])
    if not same or now.basis is not None:
        return start
    at_zero = old.intercepts(alpha, beta)
    return replace(start, alpha=at_zero + float(given[new.keep] @ new.mean))


def with_separation(plan: Plan, agreement: Agreement, solution: Solution) -> Solution:
    """Mark coefficients that grew without bound, whichever solver gave up on them.

    Compared with the information without effects; where the solver did not learn that, it is
    about the correlation of the scaled columns for every event. A penalty gives every
    coefficient an optimum.
    """
    if plan.ridge:
        return solution
    without_effects = solution.without_effects
    if without_effects is None:
        without_effects = float(agreement.events.sum()) * agreement.correlation
    runaway = separated_columns(solution.on_beta, without_effects)
    return replace(solution, separated=solution.separated | runaway)


def fit(study: Study, federation: Federation, watch: Watcher | None = None) -> FittedStudy:
    """Fit proportional hazards over a federation of centers; no patient leaves one.

        λ(t | x) = λ_k · exp(β·x)        for t in piece k of time

    β and λ_k are those of all patients together, however they are split over centers; noise and
    the solver "fedavg" come near them. With a piece for every event time it is Cox's model with
    Efron's ties.

    study       what to fit: columns, time, link, solver, protection (`fedcox.Study`)
    federation  whom to ask: `fedcox.InProcess`, where every center is in this process. With
                secure sums or noise in the study they are asked as hospitals would be
    watch       is called with every step of the solver: its `loss` and `decrement`

    Returns a `fedcox.FittedStudy`. What its reader must know is in `notices`, and comes as
    Python warnings of the same names (`fedcox.FedcoxWarning`).

    >>> import numpy as np
    >>> import fedcox
    >>> from fedcox.data.synthetic import simulate_hospitals
    >>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
    >>> study = fedcox.Study(
    ...     outcome={"time": "time", "event": "status"}, covariates=["age", "marker"]
    ... )
    >>> hospitals = fedcox.InProcess.from_frame(study, patients, center="hospital")
    >>> fitted = fedcox.fit(study, hospitals)
    >>> print(fitted.summary[["coef", "exp(coef)", "se(coef)"]].round(3))
                coef  exp(coef)  se(coef)
    covariate
    age        0.028      1.029     0.006
    marker     0.165      1.179     0.061

    Next: `fitted.predict_survival(frame, times)`, `fitted.save("fit.json")`; between hospitals
    on machines of their own: docs/how-to-deploy.md.
    """
    watch = watch or (lambda step: None)
    if study.privacy.secure_sums and federation.centers:
        study.between_hospitals(len(federation.names))  # or refused, as there
    if study.privacy.noised:
        return _fit_noised(study, federation, watch)
    federation = _masked(study, federation)
    result = estimate(Plan.of(study), federation, watch)
    notes = (
        *lost_centers(result.lost),
        *exact_sums(study, federation),
        *filled_cells(study.schema, result.agreement),
        *notices(result.plan, result.agreement, result.solution),
    )
    warn_of(notes)
    return _fitted(study, federation, result, notes)


def _fitted(
    study: Study, federation: Federation, result: Estimate, notes: tuple[Notice, ...]
) -> FittedStudy:
    """The estimate as a reader sees it."""
    agreement, plan, solution = result.agreement, result.plan, result.solution
    grid = agreement.setting.grid
    null = _log_density(agreement) - _null_loss(plan, agreement)
    return FittedStudy(
        study=study,
        centers=_center_rows(federation, agreement),
        patients=agreement.counts.patients,
        events=int(agreement.counts.events.sum()),
        edges=agreement.grid.edges,
        resolution=grid.unit if isinstance(grid, Pieces) else None,
        every_event_time=isinstance(grid, Pieces) and grid.ties is not None,
        link=plan.link.name,
        ratio_name=plan.link.ratio_name,
        coefficients=coefficient_rows(plan, agreement, result.inference, solution.separated),
        baseline=_baseline(result),
        coefficient_covariance=result.inference.covariance,
        curve_error=result.inference.curve_error,
        risk_table=agreement.risk_table,
        followed_longer=agreement.counts.passed,
        log_likelihood=result.log_likelihood,
        null_log_likelihood=null,
        likelihood_ratio=likelihood_ratio(
            plan, result.log_likelihood, null, agreement, converged=solution.converged
        ),
        converged=solution.converged,
        rounds=result.rounds,
        bytes_up=result.bytes_up,
        bytes_down=result.bytes_down,
        concordance=_concordance(federation, result),
        convergence=tuple(
            RoundRow(number, step.loss, step.decrement)
            for number, step in enumerate(solution.steps, start=1)
        ),
        notices=notes,
        versions=versions(),
        ledger=result.ledger,
    )


def _fit_noised(study: Study, federation: Federation, watch: Watcher) -> FittedStudy:
    from fedcox.study.expected_patients import check_all
    from fedcox.study.noised_fit import fit_noised, noised

    if federation.centers:
        check_all(study, [center.cohort for center in federation.centers])
        federation = _masked(study, noised(study, federation))
    fitted = fit_noised(study, federation, watch)
    warn_of(fitted.notices)
    return fitted


def _masked(study: Study, federation: Federation) -> Federation:
    """Where the study says so, centers of this process are seen in their sums alone."""
    if not (study.privacy.secure_sums and federation.centers):
        return federation
    from fedcox.engines.masked import Masked

    return Masked.around(federation, study=study.name)


def _center_rows(federation: Federation, agreement: Agreement) -> tuple[CenterRow, ...]:
    if agreement.by_center is None:
        return tuple(CenterRow(name) for name in federation.names)
    dropped = {center.name: dict(center.dropped) for center in federation.centers}
    filled = {center.name: dict(center.filled) for center in federation.centers}
    shown = agreement.setting.grid.intervals <= _INTERVALS_PER_CENTER
    return tuple(
        CenterRow(
            name,
            counts.patients,
            int(counts.events.sum()),
            dropped.get(name, {}),
            counts.reached.tolist() if shown else None,
            counts.events.astype(int).tolist() if shown else None,
            filled.get(name, {}),
        )
        for name, counts in agreement.by_center.items()
    )


def _log_density(agreement: Agreement) -> float:
    """What turns a likelihood of counts by piece into the usual one.

    With a piece for every event time that is Cox's partial likelihood, else that of the times:
    a density, per unit of time.
    """
    grid, events = agreement.setting.grid, agreement.events
    if not isinstance(grid, Pieces):
        return 0.0
    if grid.ties is not None:
        return float((events - xlogy(events, events)).sum())
    return -float(events @ np.log(grid.widths[agreement.setting.active]))


def baseline_alpha(agreement: Agreement, fitted: FloatArray) -> FloatArray:
    """α of each interval as a reader sees it; -inf without an event, inf with events alone.

    Of an event time whose ties are spread, its pieces together.
    """
    setting = agreement.setting
    alpha = np.full(setting.active.size, -np.inf)
    alpha[setting.active] = fitted
    if isinstance(setting.grid, Pieces) and setting.grid.tied is not None:
        first = np.flatnonzero(setting.grid.tied.first == np.arange(alpha.size))
        largest = float(fitted.max())  # a hazard at zero may be beyond any number
        with np.errstate(divide="ignore"):
            sums = np.add.reduceat(np.exp(alpha - largest), first)
            return np.asarray(np.log(sums) + largest)
    alpha[(agreement.counts.events > 0) & ~setting.active] = np.inf
    return alpha


def _baseline(result: Estimate) -> tuple[BaselineInterval, ...]:
    """Every interval of the grid: fitted ones with α, the others with hazard zero or one.

    The hazard of a piece, and α its logarithm, are per unit of time.
    """
    agreement = result.agreement
    counts, grid = agreement.counts, agreement.grid
    alpha = baseline_alpha(agreement, result.alpha)
    active = np.isfinite(alpha)
    if isinstance(grid, Pieces):
        alpha = alpha - np.log(grid.widths)
    hazard = (counts.events > 0).astype(np.float64)
    with np.errstate(over="ignore"):
        hazard[active] = result.plan.link.hazard(alpha[active])
    return tuple(
        BaselineInterval(end, value if fitted else None, risk, people, int(events))
        for end, value, fitted, risk, people, events in zip(
            grid.edges.tolist(),
            alpha.tolist(),
            active.tolist(),
            hazard.tolist(),
            counts.reached.tolist(),
            counts.events.tolist(),
            strict=True,
        )
    )


def _concordance(federation: Federation, result: Estimate) -> float | None:
    """Harrell's c-index on true times, where every center is in this process.

    It compares patients of different centers pair by pair, so over a network nobody is asked.
    """
    agreement, cohorts = result.agreement, federation.cohorts
    if not cohorts:
        return None
    coefficients = np.zeros(agreement.mean.size)
    coefficients[agreement.setting.scaling.keep] = result.inference.coefficients
    return concordance_index(
        np.concatenate([cohort.time for cohort in cohorts]),
        np.concatenate([cohort.event for cohort in cohorts]),
        np.concatenate(
            [
                linear_predictor(cohort.covariates, coefficients, mean=agreement.mean)
                for cohort in cohorts
            ]
        ),
    ).index
