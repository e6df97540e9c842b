"""How much do centers send? Numbers and bytes per round and to the optimum, of real messages.

Every method is run over a federation and its messages are read off the ledger: what a solver
asked on its way, and what one center sent and received for each answer. The paper's
claim is that the discrete-time model's gradient takes O(T + P) numbers a round, T event times
and P covariates, where WebDISCO's sums over risk sets take O(TP), and O(TP²) with curvature.

The follow-up of simulated patients is rounded up to T times, each with an event, so that both
models see the same T: for the discrete-time model these are the intervals, for Cox's the
distinct event times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedcox.data.synthetic import simulate_paper_cohort, split_uniformly
from fedcox.engines.in_process import InProcess
from fedcox.evaluation.result import library_versions
from fedcox.evaluation.seeds import derived_generator
from fedcox.federation.center import Center
from fedcox.federation.ledger import BYTES_PER_NUMBER, LedgerRow
from fedcox.federation.query import Federation
from fedcox.paper.reproduction import Progress, silent
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import (
    AbstractSolver,
    Loss,
    Patients,
    Point,
    Problem,
    Solution,
    Watcher,
)
from fedcox.study.cox import fit_cox
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS

#: Every coefficient is nearer to the optimum than this part of its standard error.
CLOSE = 0.01
#: The paper trains for this many rounds, whatever the data (its appendix C).
PAPER_ROUNDS = 5000
_ADAM_ROUNDS_RUN = 5
_CENTERS = 5
#: The study ends when this share of the patients is still under observation.
_LAST_SHARE = 0.02


@dataclass(frozen=True)
class Messages:
    """What one center sent and received in some rounds."""

    rounds: int = 0
    numbers_up: int = 0
    numbers_down: int = 0

    def __add__(self, other: Messages) -> Messages:
        return Messages(
            self.rounds + other.rounds,
            self.numbers_up + other.numbers_up,
            self.numbers_down + other.numbers_down,
        )

    def __sub__(self, other: Messages) -> Messages:
        return self + other * -1

    def __mul__(self, times: int) -> Messages:
        return Messages(times * self.rounds, times * self.numbers_up, times * self.numbers_down)

    @property
    def bytes(self) -> int:
        """Both ways, as doubles."""
        return BYTES_PER_NUMBER * (self.numbers_up + self.numbers_down)


@dataclass(frozen=True, eq=False)
class Asked:
    """One look at the loss: where, and how much one center sent and received for it."""

    beta: FloatArray
    question: str
    messages: Messages


@dataclass(eq=False)
class _Recorder(AbstractSolver):
    """A solver that keeps where it asked and what went over the wire for each answer."""

    solver: AbstractSolver
    asked: list[Asked] = field(default_factory=list)
    solution: Solution | None = None

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        problem = replace(problem, loss=_RecordedLoss(problem.loss, self.asked))
        self.solution = self.solver.minimise(federation, problem, watch)
        return self.solution


@dataclass(frozen=True, eq=False)
class _RecordedLoss:
    loss: Loss
    asked: list[Asked]

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        mark = federation.ledger.mark()
        reply = self.loss(federation, at, detail, batch)
        rows = federation.ledger.since(mark)
        self.asked.append(Asked(at.beta.copy(), rows[0].query, _of_one_center(rows)))
        return reply


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A finished run: the looks it took, the rounds before them, and where it ended."""

    asked: tuple[Asked, ...]
    everything: Messages
    solution: Solution

    @property
    def set_up(self) -> Messages:
        looked = sum((asked.messages for asked in self.asked), Messages())
        return self.everything - looked

    def standard_errors(self) -> FloatArray:
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self.solution.on_beta))))

    def until_within(self, share: float, optimum: RecordedRun) -> Messages | None:
        """All messages before the first point from which on every point is near the optimum.

        Near is every coefficient within `share` of its standard error. None where the run
        ended elsewhere.
        """
        error = share * optimum.standard_errors()
        points = [*(asked.beta for asked in self.asked), self.solution.beta]
        near = [bool((np.abs(p - optimum.solution.beta) < error).all()) for p in points]
        if not near[-1]:
            return None
        replies = max((k + 1 for k, close in enumerate(near) if not close), default=0)
        return sum((asked.messages for asked in self.asked[:replies]), self.set_up)


def recorded(
    fit: Callable[[InProcess, AbstractSolver], None],
    federation: InProcess,
    solver: AbstractSolver,
) -> RecordedRun:
    """Run `fit` over a fresh federation with `solver` watched."""
    recorder = _Recorder(solver)
    fit(federation, recorder)
    if recorder.solution is None:
        raise ValueError("The solver was not asked.")
    rows = federation.ledger.since((0, 0))
    return RecordedRun(tuple(recorder.asked), _of_one_center(rows), recorder.solution)


def _of_one_center(rows: Sequence[LedgerRow]) -> Messages:
    """What the center with the most to send and receive did; sums are of one size for all."""
    totals: dict[str, Messages] = {}
    for row in rows:
        sent = Messages(0, row.numbers_up, row.numbers_down)
        totals[row.center] = totals.get(row.center, Messages()) + sent
    most = max(totals.values(), key=lambda sent: sent.bytes)
    return replace(most, rounds=len({row.round for row in rows}))


@dataclass(frozen=True)
class SolvingMethod:
    """A model with a way to its optimum; `per_round` is the usual reply in numbers."""

    name: str
    per_round: str
    usual: str  # the question, as the ledger names it
    multiplied: bool = False


METHODS = (
    SolvingMethod("DT-FL, Adam", "1 + T + P", "gradient of a batch", multiplied=True),
    SolvingMethod("DT-FL, L-BFGS", "1 + T + P", "gradient"),
    SolvingMethod("DT-FL, Newton", "1 + 2T + P + TP + P(P+1)/2", "hessian"),
    SolvingMethod("WebDISCO, L-BFGS", "T + TP", "risk-set sums: gradient"),
    SolvingMethod("WebDISCO, Newton", "T + TP + TP(P+1)/2", "risk-set sums: hessian"),
)


@dataclass(frozen=True)
class Cost:
    """One method on one problem, for one center.

    `per_round` is its usual round. `close` is all it took, agreements before the fit included,
    until every coefficient was and stayed within a hundredth of a standard error of the pooled
    optimum; None where it was not run that far. `stop` is all until the solver stopped by
    itself, with the information that standard errors need; for Adam, the paper's rounds.
    """

    method: str
    times: int
    columns: int
    per_round: Messages
    set_up: Messages
    close: Messages | None
    stop: Messages


@dataclass(frozen=True)
class CommunicationStudy:
    """Every method on every problem, T × P."""

    patients: int
    centers: int
    seed: int
    times: tuple[int, ...]
    columns: tuple[int, ...]
    costs: tuple[Cost, ...]
    versions: Mapping[str, str]

    def cost(self, method: str, times: int, columns: int) -> Cost:
        costs = {(cost.method, cost.times, cost.columns): cost for cost in self.costs}
        return costs[method, times, columns]

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def run_communication(
    quick: bool = False, progress: Progress = silent, seed: int = 0
) -> CommunicationStudy:
    """Run every method over the grid of T and P; `quick` takes fewer patients and sizes."""
    patients = 1000 if quick else 2000
    columns = (5, 10, 20) if quick else (5, 20, 50, 100)
    cohort = study_cohort(patients, max(columns), seed=seed)
    events = int(np.unique(cohort.time[cohort.event]).size)
    times = (10, 30, 100, events) if quick else (10, 30, 100, 300, events)
    problems = [(count, width) for width in columns for count in times]
    costs: list[Cost] = []
    for done, (count, width) in enumerate(problems):
        progress(done, len(problems), f"T = {count}, P = {width}")
        costs += costs_of(rounded_up(first_columns(cohort, width), count), seed=seed)
    progress(len(problems), len(problems), "")
    return CommunicationStudy(
        patients, _CENTERS, seed, times, columns, tuple(costs), library_versions()
    )


def study_cohort(patients: int, columns: int, *, seed: int) -> Cohort:
    """The paper's patients, the covariates with the largest effects first.

    The study ends for all at one time, when some are still under observation: otherwise the
    last of all might have the event, at a time that tells nothing.
    """
    drawn = simulate_paper_cohort(
        patients,
        columns,
        rng=derived_generator(seed, "communication"),
        censoring_bound="population",
    )
    cohort, strength = drawn.cohort, np.abs(drawn.coefficients)
    end = float(np.quantile(cohort.time, 1.0 - _LAST_SHARE))
    return Cohort(
        cohort.covariates[:, np.argsort(-strength)],
        np.minimum(cohort.time, end),
        cohort.event & (cohort.time < end),
    )


def first_columns(cohort: Cohort, columns: int) -> Cohort:
    """The same patients with fewer covariates."""
    return Cohort(cohort.covariates[:, :columns], cohort.time, cohort.event)


def rounded_up(cohort: Cohort, times: int) -> Cohort:
    """Follow-up rounded up to the next of `times` event times; beyond the last it stays."""
    known = np.unique(cohort.time[cohort.event])
    last = np.ceil(known.size * np.arange(1, times + 1) / times).astype(int) - 1
    levels = known[last]
    place = np.searchsorted(levels, cohort.time, side="left")
    rounded = np.append(levels, np.inf)[place]
    return Cohort(
        cohort.covariates, np.where(np.isfinite(rounded), rounded, cohort.time), cohort.event
    )


def costs_of(cohort: Cohort, *, seed: int) -> list[Cost]:
    """Every method on these patients, over a few centers."""

    def run(
        fit: Callable[[InProcess, AbstractSolver], None], solver: AbstractSolver
    ) -> RecordedRun:
        return recorded(fit, in_centers(cohort, seed=seed), solver)

    discrete = run(_discrete_time, Newton())
    cox = run(_webdisco, Newton())
    runs = {
        "DT-FL, Adam": run(_discrete_time, _paper_adam(seed)),
        "DT-FL, L-BFGS": run(_discrete_time, LBFGS()),
        "DT-FL, Newton": discrete,
        "WebDISCO, L-BFGS": run(_webdisco, LBFGS()),
        "WebDISCO, Newton": cox,
    }
    times = int(np.unique(cohort.time[cohort.event]).size)
    return [
        _cost(
            method,
            runs[method.name],
            discrete if method.name.startswith("DT-FL") else cox,
            times,
            cohort.columns,
        )
        for method in METHODS
    ]


def _paper_adam(seed: int) -> Adam:
    return Adam(learning_rate=1e-3, steps=_ADAM_ROUNDS_RUN, batch_size=100, seed=seed)


def in_centers(cohort: Cohort, *, seed: int) -> InProcess:
    """Simulated patients in a few centers of equal size, which answer WebDISCO's questions."""
    rng = derived_generator(seed, "centers")
    center = split_uniformly(cohort.patients, _CENTERS, rng=rng)
    return InProcess(
        [
            Center(f"center {k + 1}", cohort.take(center == k), allow_experiments=True)
            for k in range(_CENTERS)
        ]
    )


def _discrete_time(federation: InProcess, solver: AbstractSolver) -> None:
    """The paper's model: logit link, an interval at every distinct event time."""
    columns = tuple(f"x{k}" for k in range(federation.centers[0].cohort.columns))
    estimate(Plan(columns, LINKS["logit"], "include", None, None, 0.0, solver), federation)


def _webdisco(federation: InProcess, solver: AbstractSolver) -> None:
    fit_cox(federation, ties="breslow", loss="webdisco", solver=solver)


def _cost(
    method: SolvingMethod, run: RecordedRun, optimum: RecordedRun, times: int, columns: int
) -> Cost:
    # The first question of a fit brings the setting along; the later ones are the usual ones.
    asked = [asked.messages for asked in run.asked if asked.question == method.usual]
    usual = min(asked, key=lambda messages: messages.bytes)
    close, stop = run.until_within(CLOSE, optimum), run.everything
    if method.multiplied:
        close, stop = None, run.set_up + asked[0] + usual * (PAPER_ROUNDS - 1)
    return Cost(method.name, times, columns, usual, run.set_up, close, stop)


def slope(sizes: Sequence[int], numbers: Sequence[int]) -> float:
    """The exponent of the power law through the points, by least squares in logs."""
    return float(np.polyfit(np.log(sizes), np.log(numbers), 1)[0])
