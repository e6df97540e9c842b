"""How small an effect can a study tell, under each way to ask for noise? From public numbers.

The standard error of a log hazard ratio is about 1 / √(events × variance of the covariate)
(Schoenfeld 1983; Hsieh and Lavori 2000), and noise makes it `price` times as large. This takes
the covariate to be uncorrelated with the others; correlation R² with them makes the standard
error 1 / √(1 − R²) times as large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import norm

from fedcox.errors import StudyError
from fedcox.privacy.accountant import gaussian_epsilon
from fedcox.solvers.private_newton import PrivateNewton
from fedcox.study.noised_fit import planned
from fedcox.study.study import Study
from fedcox.study.study_tables import USUAL_PRICE, Noise

#: What a study is usually planned for: a chance to tell the effect, and a two-sided level.
POWER, LEVEL = 0.8, 0.05
#: A price, or an epsilon: one of the two.
AskedNoise = tuple[float | None, float | None]
#: Beside what the study asks for.
OTHERS: tuple[AskedNoise, ...] = (
    *((price, None) for price in (USUAL_PRICE, 0.1, 0.25)),
    *((None, epsilon) for epsilon in (8.0, 3.0, 1.0)),
)
#: The exponential of more is beyond all numbers.
_LARGEST = 700.0
#: Nobody plans a study of more patients.
_MANY = 1e8


@dataclass(frozen=True)
class Effect:
    """A covariate whose effect is looked for: a level with a share, or a number."""

    label: str
    variance: float

    @classmethod
    def of_level(cls, share: float) -> Effect:
        return cls(f"{100 * share:g} % level", share * (1.0 - share))


#: A number counts in standard deviations of its own.
ONE_SD = Effect("one SD", 1.0)


@dataclass(frozen=True)
class NoiseChoice:
    """One way to ask for noise, or none, with so many patients, and what it leads to.

    `epsilon` is infinite without noise, and None where no epsilon worth naming has the price;
    then there is no `price` either. `price` is the factor on standard errors. `smallest` are
    the smallest hazard ratios above one that are told, effect by effect. `answers` is false
    and there are none where the noise is expected to leave no intervals; `unsure` where that
    depends on how the covariates are correlated. `against_centers` is epsilon against all other
    centers together, where they know parts of the noise.
    """

    asked: str
    patients: int
    events: int
    epsilon: float | None
    price: float | None
    smallest: tuple[float, ...]
    answers: bool
    unsure: bool = False
    against_centers: float | None = None
    own: bool = False


def smallest_log_ratio(
    events: float,
    variance: float,
    *,
    price: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """The log hazard ratio that a test at this two-sided level finds with this power."""
    return _quantiles(power, level) * price / math.sqrt(events * variance)


def events_needed(
    log_ratio: float,
    variance: float,
    *,
    price: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """How many events it takes to find a log hazard ratio."""
    return (_quantiles(power, level) * price / log_ratio) ** 2 / variance


def _quantiles(power: float, level: float) -> float:
    return float(norm.isf(level / 2.0) + norm.isf(1.0 - power))


class NoiseChooser:
    """What each choice of noise leads to, for one study."""

    def __init__(
        self,
        study: Study,
        noise: Noise,
        centers: int,
        effects: tuple[Effect, ...],
        power: float,
        level: float,
    ) -> None:
        self._study, self._noise, self.centers = study, noise, centers
        self.effects, self.power, self.level = effects, power, level
        self._rate = noise.expected_events / noise.patients
        self.solver = planned(self._with((None, 1.0), noise.patients), centers)

    def events(self, patients: int) -> int:
        """In proportion."""
        return max(1, round(self._rate * patients))

    def without(self, patients: int) -> NoiseChoice:
        events = self.events(patients)
        smallest = self._smallest(events, 1.0)
        return NoiseChoice("no noise", patients, events, math.inf, 1.0, smallest, answers=True)

    def with_noise(self, asked: AskedNoise, patients: int) -> NoiseChoice:
        events = self.events(patients)
        solver = self._solver(asked, patients)
        if solver is None:
            return NoiseChoice(_words(asked), patients, events, None, None, (), answers=False)
        price = math.hypot(1.0, solver.expected_noise)
        return NoiseChoice(
            _words(asked),
            patients,
            events,
            # The formula for one Gaussian: what a fit is accounted at, but at once.
            asked[1] or gaussian_epsilon(solver.multiplier, self._noise.delta),
            price,
            self._smallest(events, price) if solver.expects_intervals else (),
            answers=solver.expects_intervals,
            unsure=not solver.expects_information,
            against_centers=self._against_centers(solver),
        )

    def _against_centers(self, solver: PrivateNewton) -> float | None:
        if solver.parts is None:
            return None
        return gaussian_epsilon(solver.multiplier / math.sqrt(solver.parts), self._noise.delta)

    def patients_for(self, asked: AskedNoise) -> tuple[tuple[float, int], ...]:
        """From how many patients on a price has these epsilons, as two digits tell it."""
        if asked[0] is None:
            return ()
        found = []
        for _, epsilon in OTHERS:
            low, high = 0.0, math.log10(_MANY)
            while epsilon is not None and high - low > 0.002:
                middle = (low + high) / 2.0
                there = self.with_noise(asked, round(10.0**middle)).epsilon
                low, high = (low, middle) if (there or math.inf) <= epsilon else (middle, high)
            if epsilon is not None and 10.0**high < _MANY:
                unit = 10 ** (math.floor(high) - 1)
                found.append((epsilon, math.ceil(10.0**high / unit) * unit))
        return tuple(found)

    def _smallest(self, events: int, price: float) -> tuple[float, ...]:
        logs = [
            smallest_log_ratio(
                events, one.variance, price=price, power=self.power, level=self.level
            )
            for one in self.effects
        ]
        return tuple(math.exp(min(log, _LARGEST)) for log in logs)

    def _solver(self, asked: AskedNoise, patients: int) -> PrivateNewton | None:
        try:
            return planned(self._with(asked, patients), self.centers)
        except StudyError:  # the study is sound, so that it is the price that nobody can give
            return None

    def _with(self, asked: AskedNoise, patients: int) -> Study:
        price, epsilon = asked
        noise = self._noise.model_copy(
            update={
                "price": price,
                "epsilon": epsilon,
                "patients": patients,
                "events": min(patients, self.events(patients)),
            }
        )
        privacy = self._study.privacy.model_copy(update={"noise": noise})
        return self._study.model_copy(update={"privacy": privacy})


def _words(asked: AskedNoise) -> str:
    price, epsilon = asked
    return f"epsilon {epsilon:g}" if price is None else f"price {price:g}"
