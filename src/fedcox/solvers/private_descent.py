"""Gradient descent on noised sums: a fit that no single patient can be read from.

Every round spends a part of the privacy budget, so their number is fixed beforehand and
nothing is asked at the end: no loss, no information, no standard errors. The noise is known
and could be counted in; the bias of clipping is not known without asking about the very
patients that are protected, and intervals that leave it out would be too short.

What is done with noised sums costs nothing more: momentum averages the noise of neighbouring
steps, falling steps let it die out, and the mean of the later points takes off what is left.
The numbers in here were chosen on simulated patients (docs/decisions/0016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcox.federation.queries.clipped_gradient import ClippedGradientAt
from fedcox.federation.queries.clipped_moments import ClippedMomentsOf
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import noise_multiplier_for
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.batch_training import TrainedPoint
from fedcox.solvers.solver import Step, Watcher
from fedcox.survival.cohort import FloatArray

_MOMENTUM = 0.5
#: The part of the run, at its end, whose points are averaged.
_AVERAGED = 0.5
#: Steps fall like this over their number, as soon as that is below the first step.
_FALLING = 6.0
#: How far the noise in one step may move a patient's linear predictor.
_JUMP = 0.3
#: Steps of α are longer by this much times the intervals, among which the events are divided.
_ALPHA_STEPS = 0.5
#: Clipping at the first bound leaves nearly everybody as they are. Where the noise in the
#: linear predictors would be more than so many, a closer bound is worth its bias.
_WIDE, _CLOSE, _LITTLE_NOISE = 1.5, 0.3, 0.015
#: The mean loss's curvature in an effect per spread, about the share of patients with the
#: event; closer bounds than the first flatten it. And how much of the noise in intervals'
#: hazards gets into the effects. With these the noise in fits to simulated patients, with 10 to
#: 60 intervals and 6 to 40 columns, is foreseen to about a third of itself.
_CURVATURE, _FROM_HAZARDS = 0.4, 1.0 / 3.0
#: Where α starts, a public guess: half of all patients have the event before the horizon.
_SURVIVING = 0.5


@dataclass(frozen=True)
class PrivateDescent:
    """`steps` rounds of descent with momentum on noised sums of clipped shares.

    `patients` is about how many take part in all centers, a public number such as the planned
    size of the study; steps and noise are balanced by it. A patient's gradient, β's part
    divided by √columns and α's multiplied by `alpha_scale`, is clipped to length `clip`; by
    default that follows from public numbers. With `sampling_rate` below one every round is over
    patients drawn in secret.

    The setting's scale is public, and gives covariates of spread about one. With `standardise`
    one more round, the first, asks for noised means and spreads, since the descent is slow and
    clipping unfair where covariates are off their center.
    """

    patients: int
    steps: int = 60
    learning_rate: float = 1.0
    clip: float | None = None
    alpha_scale: float = 0.4
    sampling_rate: float = 1.0
    standardise: bool = True

    @property
    def releases(self) -> int:
        """How many noised sums a fit takes."""
        return self.steps + self.standardise

    def release(
        self,
        epsilon: float,
        delta: float,
        *,
        columns: int,
        centers: int | None = None,
        fewest_centers: int | None = None,
    ) -> GaussianRelease:
        """The noise under which all rounds together spend `epsilon`.

        `centers` is how many take part, where that is known beforehand: more of them than
        parts of the noise add more of it. Without, it is taken as added once.
        """
        multiplier = noise_multiplier_for(
            epsilon, delta, sampling_rate=self.sampling_rate, releases=self.releases
        )
        clip = self.clip
        if clip is None:
            parts = fewest_centers or 1
            added = math.sqrt((centers or parts) / parts)
            noise = self._noise(added * multiplier, columns) / math.sqrt(self.steps)
            clip = max(_CLOSE, _WIDE * min(1.0, math.sqrt(_LITTLE_NOISE / noise)))
        return GaussianRelease(
            multiplier, clip, self.sampling_rate, self.releases, fewest_centers
        )

    def train(
        self,
        federation: Federation,
        setting: Setting,
        release: GaussianRelease,
        ridge: FloatArray | None = None,
        watch: Watcher = lambda step: None,
    ) -> TrainedPoint:
        """Descend from a public start; one round a step, each a noised sum.

        `ridge` is added to the loss as ½ Σ ridge_j β_j², on the setting's scale, and what comes
        back is on that scale, too.
        """
        public = setting.scaling
        if self.standardise:
            setting = self.standardised(federation, setting, release)
        stretch = public.spread / setting.scaling.spread
        penalty = 0.0 if ridge is None else ridge * stretch**2 / self.patients
        point = self._descend(federation, setting, release, penalty, watch)
        beta = stretch * point.beta
        shift = (public.mean - setting.scaling.mean) / setting.scaling.spread
        return TrainedPoint(point.alpha + float(point.beta @ shift), beta)

    def _descend(
        self,
        federation: Federation,
        setting: Setting,
        release: GaussianRelease,
        penalty: FloatArray | float,
        watch: Watcher,
    ) -> TrainedPoint:
        intervals, columns = setting.intervals, setting.columns
        beta_scale = 1.0 / math.sqrt(columns)
        # From a sum of scaled gradients to the mean gradient, with its own length of step.
        lengths = np.full(intervals + columns, _ALPHA_STEPS * intervals / self.alpha_scale)
        lengths[intervals:] = 1.0 / beta_scale
        lengths /= self.patients * self.sampling_rate

        def gradient_at(_: int, point: FloatArray) -> FloatArray:
            alpha, beta = point[:intervals].copy(), point[intervals:].copy()
            query = ClippedGradientAt(
                setting, alpha, beta, self.alpha_scale, beta_scale, release
            )
            gradient: FloatArray = query.pack(federation.ask(query)) * lengths
            gradient[intervals:] += penalty * beta
            watch(Step(math.nan, None))  # what the loss is here would cost to ask
            return gradient

        longest = self._longest(release, columns, len(federation.names))
        mean = self._later_points(_start(setting), gradient_at, longest)
        return TrainedPoint(mean[:intervals], mean[intervals:])

    def _later_points(
        self,
        point: FloatArray,
        gradient_at: Callable[[int, FloatArray], FloatArray],
        longest: float,
    ) -> FloatArray:
        """The mean of the points of the descent's later part, from `point` on."""
        speed, mean, averaged = np.zeros_like(point), np.zeros_like(point), 0
        for number in range(1, self.steps + 1):
            gradient = gradient_at(number, point)
            speed += (1.0 - _MOMENTUM) * (gradient - speed)
            point = point - min(longest, _FALLING / number) * speed
            if number > (1.0 - _AVERAGED) * self.steps:
                averaged += 1
                mean += (point - mean) / averaged
        return mean

    def noise_in_log_risk(
        self, release: GaussianRelease, *, columns: int, intervals: int, centers: int
    ) -> float:
        """How much of a usual patient's log risk is noise, next to effects found in full.

        From public numbers alone: the noise's standard deviation in the linear predictor,
        divided by the part of true effects that the steps get to, and what noise in the
        hazards of the intervals does to the effects.
        """
        longest = self._longest(release, columns, centers)
        curvature = _CURVATURE * min(1.0, release.sensitivity / _WIDE)
        reached, left = self._reached_and_left(curvature, longest)
        _, left_in_alpha = self._reached_and_left(_ALPHA_STEPS * curvature, longest)
        effects = left * self._round_noise(release, columns, centers) / reached
        # Per unit of length of step as in `_descend`; the rest is the same for α and β.
        alpha_units = _ALPHA_STEPS * intervals / self.alpha_scale
        hazards = left_in_alpha * self._round_noise(release, columns, centers)
        hazards *= alpha_units / columns
        return math.hypot(effects, _FROM_HAZARDS * hazards)

    def _reached_and_left(self, curvature: float, longest: float) -> tuple[float, float]:
        """The part of a true effect that is found, and what is left of one round's noise."""

        def gradient_at(number: int, point: FloatArray) -> FloatArray:
            """The first number is about the effect, each other one about a round's noise."""
            gradient = curvature * point
            gradient[0] -= curvature
            gradient[number] += 1.0
            return gradient

        found = self._later_points(np.zeros(self.steps + 1), gradient_at, longest)
        return float(found[0]), float(np.linalg.norm(found[1:]))

    def standardised(
        self, federation: Federation, setting: Setting, release: GaussianRelease
    ) -> Setting:
        """The same on the covariates' own scale, as noised sums give it."""
        public = setting.scaling
        moments = federation.ask(ClippedMomentsOf(public, release))
        noise = _multiplier(release, len(federation.names)) * release.sensitivity
        scaling = moments.scaling(public, noise)
        return Setting(setting.grid, setting.active, setting.reading, setting.link, scaling)

    def _noise(self, multiplier: float, columns: int) -> float:
        """The noise of one round in a linear predictor, per unit of length of step and clip.

        Covariates of spread one make a vector of length √columns, and β's part of a gradient
        is divided by that.
        """
        return multiplier * columns / (self.patients * self.sampling_rate)

    def _round_noise(self, release: GaussianRelease, columns: int, centers: int) -> float:
        """The noise of one round in a linear predictor, per unit of length of step."""
        return self._noise(_multiplier(release, centers), columns) * release.sensitivity

    def _longest(self, release: GaussianRelease, columns: int, centers: int) -> float:
        """The first steps' length."""
        return min(self.learning_rate, _JUMP / self._round_noise(release, columns, centers))


def _multiplier(release: GaussianRelease, centers: int) -> float:
    """The noise multiplier of the sum; every center has added its noise, or its part of it."""
    return release.noise_multiplier * math.sqrt(centers / release.parts)


def _start(setting: Setting) -> FloatArray:
    """The same hazard in every interval, and no effects."""
    hazard = np.full(setting.intervals, 1.0 - _SURVIVING ** (1.0 / setting.intervals))
    return np.concatenate([setting.link.intercept(hazard), np.zeros(setting.columns)])
