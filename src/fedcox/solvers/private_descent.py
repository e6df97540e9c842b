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
        self, epsilon: float, delta: float, *, columns: int, fewest_centers: int | None = None
    ) -> GaussianRelease:
        """The noise under which all rounds together spend `epsilon`."""
        multiplier = noise_multiplier_for(
            epsilon, delta, sampling_rate=self.sampling_rate, releases=self.releases
        )
        clip = self.clip
        if clip is None:
            noise = self._noise(multiplier, columns) / math.sqrt(self.steps)
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
        longest = self._longest(release, columns, len(federation.names))
        point = _start(setting)
        speed, mean, averaged = np.zeros_like(point), np.zeros_like(point), 0
        for number in range(1, self.steps + 1):
            alpha, beta = point[:intervals].copy(), point[intervals:].copy()
            query = ClippedGradientAt(
                setting, alpha, beta, self.alpha_scale, beta_scale, release
            )
            gradient = query.pack(federation.ask(query)) * lengths
            gradient[intervals:] += penalty * beta
            watch(Step(math.nan, None))  # what the loss is here would cost to ask
            speed += (1.0 - _MOMENTUM) * (gradient - speed)
            point = point - min(longest, _FALLING / number) * speed
            if number > (1.0 - _AVERAGED) * self.steps:
                averaged += 1
                mean += (point - mean) / averaged
        return TrainedPoint(mean[:intervals], mean[intervals:])

    def standardised(
        self, federation: Federation, setting: Setting, release: GaussianRelease
    ) -> Setting:
        """The same on the covariates' own scale, as noised sums give it."""
        public = setting.scaling
        moments = federation.ask(ClippedMomentsOf(public, release))
        scaling = moments.scaling(public, release.noise_multiplier * release.sensitivity)
        return Setting(setting.grid, setting.active, setting.reading, setting.link, scaling)

    def _noise(self, multiplier: float, columns: int) -> float:
        """The noise of one round in a linear predictor, per unit of length of step and clip.

        Covariates of spread one make a vector of length √columns, and β's part of a gradient
        is divided by that.
        """
        return multiplier * columns / (self.patients * self.sampling_rate)

    def _longest(self, release: GaussianRelease, columns: int, centers: int) -> float:
        """The first steps' length; every center has added its noise, or its part of it."""
        multiplier = release.noise_multiplier * math.sqrt(centers / release.parts)
        noise = self._noise(multiplier, columns) * release.sensitivity
        return min(self.learning_rate, _JUMP / noise)


def _start(setting: Setting) -> FloatArray:
    """The same hazard in every interval, and no effects."""
    hazard = np.full(setting.intervals, 1.0 - _SURVIVING ** (1.0 / setting.intervals))
    return np.concatenate([setting.link.intercept(hazard), np.zeros(setting.columns)])
