"""What a solver asked on its way, and what one center sent and received for each answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import PatientBatch
from fedcox.federation.ledger import BYTES_PER_NUMBER, LedgerRow
from fedcox.federation.query import Federation
from fedcox.solvers.solver import AbstractSolver, Loss, Problem, Solution, Watcher
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail


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
        self,
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        mark = federation.ledger.mark()
        reply = self.loss(federation, alpha, beta, detail, batch)
        rows = federation.ledger.since(mark)
        self.asked.append(Asked(beta.copy(), rows[0].query, _of_one_center(rows)))
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
