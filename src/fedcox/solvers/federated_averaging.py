"""Federated averaging: centers take steps of their own, and their mean is the next start.

Fewer rounds than Adam's, at the price of another place: where centers differ, the mean of their
own ways does not lead to the optimum over all patients (McMahan et al. 2017).
`FederatedAveraging` is judged by how far from the optimum it ends; `NetworkAveraging` goes
through each center's patients epoch by epoch, and keeps what does best on others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.batch import HeldOut
from fedcox.federation.queries.local_steps import (
    LocalEpochs,
    LocalLooks,
    LocalSteps,
    LocalTraining,
)
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.losses import setting_of
from fedcox.solvers.solver import (
    CLOSE,
    AbstractSolver,
    Point,
    Problem,
    Search,
    Solution,
    Step,
    Watcher,
    full_curvature,
)
from fedcox.solvers.training import (
    AbstractEpochTrainer,
    AbstractTraining,
    TrainingWatcher,
    Walk,
    check_finite,
    decayed,
    not_among,
    not_counts,
    not_positive,
    not_within,
)
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.descent import DescentName, GradientDescent

#: A loss above the first one by as much as that is, or by one for each event, which counts
#: where a loss may be below zero: the learning rate is too large.
_TOO_FAR = 1.0

_ARRAYS = "alpha", "beta", "best_alpha", "best_beta"

LocalDescent = Literal["scaled", "sgd", "adam"]

#: A scaled step of 1 is about Newton's; a plain one is as long as the slope; one of Adam's
#: moves every parameter by the rate itself, however flat the loss is there.
LEARNING_RATES: Mapping[LocalDescent, float] = {"scaled": 0.2, "sgd": 1.0, "adam": 0.005}


@dataclass(frozen=True)
class FederatedAveraging(AbstractSolver):
    """`rounds` rounds of `local_steps` steps in each center, then the mean by patients.

    `descent` is "scaled": gradient steps divided by the diagonal of the Hessian at the start,
    sent once; "sgd": plain gradient steps; or "adam", begun anew in every round, whose steps of
    even size turn the mean of the centers into something like their median. The learning rate
    – None stands for the one that suits the descent – is constant within a round and falls to
    zero over the second half of them; where a round led far uphill, the next one starts from
    the best point so far with half the rate. With `cells` a local step looks at that many of
    the center's own stacked rows, drawn by `seed`.
    """

    learning_rate: float | None = None
    rounds: int = 100
    local_steps: int = 5
    descent: LocalDescent = "scaled"
    cells: int | None = None
    seed: int = 0

    @property
    def rate(self) -> float:
        """The learning rate before it falls."""
        given = self.learning_rate
        return LEARNING_RATES[self.descent] if given is None else given

    @property
    def pooled_in_the_end(self) -> bool:
        """Whether enough rounds lead to the pooled optimum, however unlike centers are.

        The mean of one gradient step each is a gradient step over all patients.
        """
        return self.local_steps == 1 and self.descent != "adam" and self.cells is None

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        search = Search(federation, problem, watch)
        point = self.train(federation, problem, lambda step: search.note(step.loss))
        return search.judged(point, CLOSE)

    def train(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Point:
        """The mean after the last round, without asking how good it is."""
        training = self._training(federation, problem)
        best = here = problem.start
        most = least = np.inf
        slowed = 1.0
        for number in range(1, self.rounds + 1):
            rate = slowed * decayed(self.rate, number, self.rounds)
            ends = federation.ask(LocalSteps(training, *here, rate, number))
            loss = ends.loss + 0.5 * float(problem.ridge @ here.beta**2)
            watch(Step(loss, None))
            if number == 1:
                most = loss + _TOO_FAR * max(abs(loss), problem.events)
            if not loss <= most:
                here, slowed = best, 0.5 * slowed
                continue
            if loss < least:
                best, least = here, loss
            here = Point(ends.alpha / ends.patients, ends.beta / ends.patients)
        return here

    def _training(self, federation: Federation, problem: Problem) -> LocalTraining:
        setting = setting_of(problem, "Federated averaging")
        scale = np.ones(problem.alpha.size + problem.beta.size)
        if self.descent == "scaled":
            scale = _inverse_curvature(federation, problem)
        return LocalTraining(
            setting,
            "adam" if self.descent == "adam" else "sgd",
            LocalLooks(self.local_steps, self.cells),
            problem.ridge / problem.patients,
            scale,
            self.seed,
            setting_sent=self.descent == "scaled",
        )


def _inverse_curvature(federation: Federation, problem: Problem) -> FloatArray:
    """One round: the diagonal of the Hessian of the mean loss where the search begins."""
    curvature = full_curvature(problem.at(federation, problem.start, Detail.DIAGONAL))
    return problem.patients / np.concatenate([curvature.alpha, curvature.beta])


@dataclass(frozen=True)
class NetworkAveraging(AbstractEpochTrainer):
    """Rounds of local training in each center, then the mean of their networks by patients.

        θ ← Σ_c n_c θ_c / Σ_c n_c,    θ_c where center c's n_c patients led it from θ

    rounds          of local training and mean
    local_epochs    passes over the center's own patients in a round
    batch_size      of these patients in a local step; None: all of them
    learning_rate   of a local step
    descent         "adam", begun anew in every round, or "sgd"
    validation      share of the patients who are never trained on, as for NetworkAdam
    patience        training ends when so many rounds gained nothing on them

    Few rounds, and another path than pooled training where centers differ; but with "sgd", one
    epoch and `batch_size=None` a round is one step of gradient descent over all patients.

    >>> import fedcox
    >>> solver = fedcox.NetworkAveraging(rounds=10, local_epochs=2, learning_rate=0.01)
    >>> plan = fedcox.NetworkPlan(fedcox.Perceptron(columns=2), solver=solver)
    >>> plan.solver.descent
    'adam'

    Next: `fedcox.train_network(plan, federation)`; as if pooled: `fedcox.NetworkAdam`.
    """

    rounds: int = 25
    local_epochs: int = 1
    batch_size: int | None = 16
    learning_rate: float = 1e-3
    descent: DescentName = "adam"
    validation: float = 0.0
    patience: int | None = 5

    what = "Federated averaging"

    def __post_init__(self) -> None:
        faults = [
            *not_counts(self, "rounds", "local_epochs", "batch_size", "patience"),
            *not_positive(self, "learning_rate"),
            *not_within(self, "validation", zero=True),
            *not_among(self, "descent", "adam", "sgd"),
        ]
        if faults:
            raise InputError("A network cannot be trained like this.", faults)

    @property
    def most(self) -> int:
        return self.rounds

    def begin(
        self,
        federation: Federation,
        problem: Problem,
        setting: Setting,
        held: HeldOut | None,
        watch: TrainingWatcher,
    ) -> AbstractTraining:
        plan = LocalEpochs(self.local_epochs, self.batch_size, held)
        agreed = LocalTraining(setting, self.descent, plan, seed=problem.seed)
        return _AveragingTraining(federation, problem, agreed, self.learning_rate)


class _AveragingTraining(AbstractTraining):
    """Goes on by the mean of where centers come to; each part is saved by its name."""

    def __init__(
        self,
        federation: Federation,
        problem: Problem,
        agreed: LocalTraining,
        rate: float,
    ) -> None:
        super().__init__(Walk(problem, GradientDescent))
        self._federation, self._agreed, self._rate = federation, agreed, rate

    def train(self, epoch: int) -> float:
        query = LocalSteps(self._agreed, *self.point, self._rate, epoch)
        ends = self._federation.ask(query)
        check_finite(ends.loss + float(ends.beta.sum() + ends.alpha.sum()), epoch)
        np.concatenate([ends.alpha, ends.beta], out=self.walk.vector)
        self.walk.vector /= ends.patients
        return ends.loss / ends.patients

    @property
    def arrays(self) -> dict[str, FloatArray]:
        return dict(zip(_ARRAYS, (*self.point, *self.best), strict=True))

    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        alpha, beta, best_alpha, best_beta = (arrays[name] for name in _ARRAYS)
        point, best = np.concatenate([alpha, beta]), np.concatenate([best_alpha, best_beta])
        super().resume({"point": point, "best": best})
