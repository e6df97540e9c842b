"""Training of a network on noised sums: one that no single patient can be read from.

Every round spends a part of the privacy budget, so their number is fixed beforehand and nothing
else is asked: no counts, no loss, no validation. The unit is the patient, with all slides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcox.errors import InputError
from fedcox.federation.queries.clipped_gradient import ClippedNetworkGradientAt
from fedcox.federation.query import Federation
from fedcox.privacy.accountant import noise_multiplier_for
from fedcox.privacy.noise import GaussianRelease
from fedcox.solvers.losses import setting_of
from fedcox.solvers.private_newton import fewest_of
from fedcox.solvers.solver import Problem
from fedcox.solvers.training import (
    AbstractTrainer,
    Checkpoint,
    EpochLoss,
    TrainingEnd,
    TrainingStep,
    TrainingWatcher,
    Walk,
    decayed,
    not_counts,
    not_positive,
    not_within,
)
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.descent import GradientDescent


@dataclass(frozen=True)
class PrivateNetwork(AbstractTrainer):
    """Gradient descent on noised sums of patients' clipped gradients: differential privacy.

        θ ← θ − rate / (patients · sampling_rate) · (Σ_i clipped(g_i) + Gaussian noise)

    patients        about how many take part in all centers, a public number such as the
                    planned size of the study
    epsilon, delta  what all rounds together spend: how much one patient can change, at most
    steps           rounds; more of them share the same epsilon, with more noise in each
    clip            length to which a patient's gradient g_i is clipped, of weights and baseline
                    together, over all slides
    sampling_rate   below one every round is over patients drawn in secret
    learning_rate   falls to zero over the second half

    Nothing is asked beside it: no counts, no loss, no validation.

    >>> import fedcox
    >>> private = fedcox.PrivateNetwork(patients=350, epsilon=1.0, delta=1e-5)
    >>> noise = private.noise_in_log_risk(private.release(), centers=3)
    >>> f"a usual patient's log risk is off by about {noise:.1f}"
    "a usual patient's log risk is off by about 0.5"
    >>> plan = fedcox.NetworkPlan(
    ...     fedcox.Perceptron(columns=1),
    ...     width=100,
    ...     horizon=400,
    ...     ranges=((18, 95),),
    ...     solver=private,
    ... )

    Next: `fedcox.train_network(plan, federation)`; `record.guarantee` is what was spent.
    """

    patients: int
    epsilon: float
    delta: float
    steps: int = 100
    clip: float = 1.0
    sampling_rate: float = 1.0
    learning_rate: float = 0.3

    def __post_init__(self) -> None:
        faults = [
            *not_counts(self, "patients", "steps"),
            *not_positive(self, "epsilon", "clip", "learning_rate"),
            *not_within(self, "delta", zero=False),
            *not_within(self, "sampling_rate", zero=False),
        ]
        if faults:
            raise InputError("A network cannot be trained under noise like this.", faults)

    def release(self, fewest_centers: int | None = None) -> GaussianRelease:
        """The noise under which all rounds together spend `epsilon`.

        `fewest_centers` is for sums under masks, see GaussianRelease.
        """
        multiplier = noise_multiplier_for(
            self.epsilon, self.delta, sampling_rate=self.sampling_rate, releases=self.steps
        )
        return GaussianRelease(
            multiplier, self.clip, self.sampling_rate, self.steps, fewest_centers
        )

    def noise_in_log_risk(self, release: GaussianRelease, *, centers: int) -> float:
        """How much of a usual patient's log risk is noise, as a standard deviation.

        From public numbers alone, as if log risks moved with the weights one to one. On
        simulated slides the noise that was measured agreed with it to a third.
        """
        multiplier = release.noise_multiplier * math.sqrt(centers / release.parts)
        per_round = multiplier * self.clip / (self.patients * self.sampling_rate)
        return per_round * math.hypot(*self._rates)

    @property
    def _rates(self) -> list[float]:
        numbers = range(1, self.steps + 1)
        return [decayed(self.learning_rate, number, self.steps) for number in numbers]

    def train(
        self,
        federation: Federation,
        problem: Problem,
        watch: TrainingWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingEnd:
        if checkpoint is not None:
            raise InputError(
                "A training under noise is not taken up again from a checkpoint.",
                ["A step that is asked twice would cost twice. Train without a checkpoint."],
            )
        release, setting = (
            self.release(fewest_centers(federation)),
            setting_of(problem, "Noise"),
        )
        walk, weights = Walk(problem, GradientDescent), problem.beta.size
        for number, rate in enumerate(self._rates, start=1):
            query = ClippedNetworkGradientAt(setting, *walk.point, release)
            summed = federation.ask(query)
            slopes = Derivatives(math.nan, summed[weights:], summed[:weights], None)
            walk.look(slopes, self.patients * self.sampling_rate)
            walk.step(rate)
            watch(TrainingStep(1, number, self.steps, math.nan))
        return TrainingEnd(*walk.point, (EpochLoss(1, math.nan),), best=1)


def fewest_centers(federation: Federation) -> int | None:
    """The fewest that a sum under masks can have; None where every reply is seen."""
    return None if federation.shows_centers else fewest_of(len(federation.names))
