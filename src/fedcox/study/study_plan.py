"""What a study would cost and could tell: from public numbers alone, before it is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedcox.data.wording import counted
from fedcox.errors import StudyError
from fedcox.privacy.accountant import gaussian_epsilon
from fedcox.solvers.private_newton import PrivateNewton
from fedcox.study.noised_fit import MOST_EPSILON, planned
from fedcox.study.notices import large_delta
from fedcox.study.power import LEVEL, POWER, smallest_log_ratio
from fedcox.study.study import Study
from fedcox.study.study_rules import masked_faults
from fedcox.study.study_tables import USUAL_PRICE, Noise

#: A price, or an epsilon: one of the two.
_Asked = tuple[float | None, float | None]
#: Beside what the study asks for.
_OTHERS: tuple[_Asked, ...] = (
    *((price, None) for price in (USUAL_PRICE, 0.1, 0.25)),
    *((None, epsilon) for epsilon in (8.0, 3.0, 1.0)),
)
#: Fewer events a coefficient than this are few, with noise or without.
_FEW_EVENTS = 10
#: The exponential of more is beyond all numbers.
_LARGEST = 700.0
#: Nobody plans a study of more patients.
_MANY = 1e8
#: The curve goes from so small a part of the patients to as many times them.
_REACH, _POINTS = 10.0, 41
#: Numbers of patients of the table, in parts of those that are planned with.
_TABLE = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)


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


@dataclass(frozen=True)
class StudyPlan:
    """What `fedcox.plan` says of a study before anybody is asked.

    own             what the study asks for; `exact`, the same without noise
    choices         these two beside others, from no noise to much, each with its `epsilon`,
                    `price` (factor on standard errors) and `smallest` hazard ratios
    effects         what the smallest ratios are of: a level with this share, one SD of a number
    table, curves   the choices over the number of patients, events in proportion
    patients_for    how many patients it takes until the price that the study asks for has
                    these epsilons; empty where it asks for an epsilon
    remarks         what must be known of these numbers

    >>> import fedcox
    >>> study = fedcox.Study(
    ...     outcome={"time": "days", "event": "died", "unit": "days"},
    ...     covariates={"age": {"type": "number", "min": 18, "max": 95}},
    ...     grid={"horizon": 1800},
    ...     privacy={"noise": {"epsilon": 3, "patients": 2000, "events": 900}},
    ... )
    >>> planned = fedcox.plan(study)
    >>> [effect.label for effect in planned.effects]
    ['50 % level', 'one SD']
    >>> [round(ratio, 2) for ratio in planned.own.smallest]
    [1.24, 1.11]
    >>> [round(ratio, 2) for ratio in planned.exact.smallest]
    [1.21, 1.1]

    Next: `to_dict()` for JSON; `fedcox plan study.toml --out plan.html` makes a page of it.
    """

    name: str
    patients: int
    events: int
    centers: int
    masked: bool
    delta: float
    coefficients: int
    pieces: int
    power: float
    level: float
    effects: tuple[Effect, ...]
    choices: tuple[NoiseChoice, ...]
    table: tuple[tuple[NoiseChoice, NoiseChoice], ...]
    curves: tuple[tuple[NoiseChoice, ...], ...]
    patients_for: tuple[tuple[float, int], ...]
    remarks: tuple[str, ...]

    @property
    def own(self) -> NoiseChoice:
        """What the study asks for."""
        return next(choice for choice in self.choices if choice.own)

    @property
    def exact(self) -> NoiseChoice:
        """Without noise."""
        return self.choices[0]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: an epsilon without bound is null, and so is what is not possible."""
        record = asdict(self)
        for key in ("choices", "table", "curves"):
            record[key] = _finite(record[key])
        return record


def plan(
    study: Study,
    *,
    patients: int | None = None,
    events: int | None = None,
    centers: int = 5,
    shares: Sequence[float] = (0.5,),
    power: float = POWER,
    level: float = LEVEL,
) -> StudyPlan:
    """Epsilon, price and the smallest hazard ratios of a study; no patient is asked.

    `patients` and `events` are about how many there will be in all centers; without them, the
    study's own numbers. `shares` are those of the levels whose effects are looked for.
    """
    base = _public(study, patients, events)
    noise = base.privacy.noise
    if not isinstance(noise, Noise):
        raise TypeError("A plan is made of a study with noise.")
    _check(base, centers, shares, power, level)
    effects = (*(Effect.of_level(share) for share in shares), ONE_SD)
    chooser = _Chooser(base, noise, centers, effects, power, level)
    exact = study.privacy.noise == "none"
    asked = _asked(noise)
    at, total = noise.patients, noise.expected_events
    compared = list(dict.fromkeys([asked, *_OTHERS]))
    beside = [chooser.with_noise(one, at) for one in compared]
    beside[0] = replace(beside[0], own=not exact)
    beside.sort(key=lambda one: math.inf if one.epsilon is None else one.epsilon, reverse=True)
    choices = (replace(chooser.without(at), own=exact), *beside)
    own = next(one for one in choices if one.own)
    numbers = np.rint(at * np.geomspace(1.0 / _REACH, _REACH, _POINTS)).astype(int)
    grid = np.unique(np.maximum(numbers, 1)).tolist()
    sizes = [max(1, round(part * at)) for part in _TABLE]
    return StudyPlan(
        name=study.name,
        patients=at,
        events=total,
        centers=centers,
        masked=bool(base.privacy.secure_sums),
        delta=noise.delta,
        coefficients=len(base.schema.encoded_names),
        pieces=chooser.solver.pieces_wanted,
        power=power,
        level=level,
        effects=effects,
        choices=choices,
        table=tuple((chooser.without(size), chooser.with_noise(asked, size)) for size in sizes),
        curves=(
            tuple(chooser.without(number) for number in grid),
            *(tuple(chooser.with_noise(one, number) for number in grid) for one in compared),
        ),
        patients_for=chooser.patients_for(asked),
        remarks=tuple(_remarks(study, noise, own, chooser)),
    )


class _Chooser:
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
        self._study, self._noise, self._centers = study, noise, centers
        self._effects, self._power, self._level = effects, power, level
        self._rate = noise.expected_events / noise.patients
        self.solver = planned(self._with((None, 1.0), noise.patients), centers)

    def events(self, patients: int) -> int:
        """In proportion."""
        return max(1, round(self._rate * patients))

    def without(self, patients: int) -> NoiseChoice:
        events = self.events(patients)
        smallest = self._smallest(events, 1.0)
        return NoiseChoice("no noise", patients, events, math.inf, 1.0, smallest, answers=True)

    def with_noise(self, asked: _Asked, patients: int) -> NoiseChoice:
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

    def patients_for(self, asked: _Asked) -> tuple[tuple[float, int], ...]:
        """From how many patients on a price has these epsilons, as two digits tell it."""
        if asked[0] is None:
            return ()
        found = []
        for _, epsilon in _OTHERS:
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
                events, one.variance, price=price, power=self._power, level=self._level
            )
            for one in self._effects
        ]
        return tuple(math.exp(min(log, _LARGEST)) for log in logs)

    def _solver(self, asked: _Asked, patients: int) -> PrivateNewton | None:
        try:
            return planned(self._with(asked, patients), self._centers)
        except StudyError:  # the study is sound, so that it is the price that nobody can give
            return None

    def _with(self, asked: _Asked, patients: int) -> Study:
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


def _public(study: Study, patients: int | None, events: int | None) -> Study:
    """The study as it would be asked between hospitals, with these public numbers."""
    tables = study.to_dict()
    privacy = dict(tables.get("privacy", {}))
    noise = dict(privacy["noise"]) if isinstance(privacy.get("noise"), dict) else {}
    given = {"patients": patients, "events": events}
    noise |= {key: number for key, number in given.items() if number is not None}
    if patients is not None and events is None:
        noise.pop("events", None)  # it was that of another number of patients
    if "patients" not in noise:
        raise StudyError(
            "A plan needs about how many patients will take part.",
            ["Give --patients, or [privacy.noise] patients in the study."],
        )
    masked = study.privacy.secure_sums is not False
    tables["privacy"] = {**privacy, "noise": noise, "secure_sums": masked}
    try:
        return Study.from_dict(tables)
    except StudyError as error:
        raise StudyError(
            "This study cannot be planned with noise as it is.", error.faults
        ) from None


def _check(
    study: Study, centers: int, shares: Sequence[float], power: float, level: float
) -> None:
    faults = masked_faults(centers) if study.privacy.secure_sums else []
    if centers < 1:
        faults = [f"{centers} centers: give one at least."]
    faults += [
        f"A share of {share:g} is none: give a number between 0 and 1, such as 0.2."
        for share in shares
        if not 0 < share < 1
    ]
    if not 0 < level < power < 1:
        faults.append(f"Power {power:g} at level {level:g}: give 0 < level < power < 1.")
    if faults:
        raise StudyError("This cannot be planned.", faults)


def _asked(noise: Noise) -> _Asked:
    return noise.price, noise.epsilon


def _words(asked: _Asked) -> str:
    price, epsilon = asked
    return f"epsilon {epsilon:g}" if price is None else f"price {price:g}"


def _remarks(study: Study, noise: Noise, own: NoiseChoice, chooser: _Chooser) -> list[str]:
    """What must be known of these numbers, the study's own first."""
    said = []
    if study.privacy.noise == "none":
        said.append(
            "The study asks for exact sums: whoever sees them may be able to compute patients. "
            "What noise would cost stands beside it."
        )
    elif own.epsilon is None:
        said.append(
            f"No epsilon below {MOST_EPSILON:g} gives this price: so many patients do not bear "
            f"{counted(chooser.solver.columns, 'coefficient')}. Plan with more patients, fewer "
            "covariates or a larger price."
        )
    elif not own.answers:
        said.append(
            "With this epsilon the noise would be larger than the study can bear: no intervals "
            "and no p-values are to be expected. Plan with more patients, fewer covariates or "
            "a larger epsilon."
        )
    elif own.unsure:
        said.append(
            "So few patients hardly bear this epsilon: where covariates are correlated, or "
            "levels rare, the fit may not arrive, and then has no intervals."
        )
    coefficients = chooser.solver.columns
    if noise.expected_events < _FEW_EVENTS * coefficients:
        said.append(
            f"{counted(noise.expected_events, 'event')} for "
            f"{counted(coefficients, 'coefficient')} are few, with noise or without: fewer "
            f"than {_FEW_EVENTS} each."
        )
    if noise.events is None:
        said.append("The number of events was not given: half of the patients are assumed.")
    said += [notice.text for notice in large_delta(noise.delta, noise.patients)]
    return said


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and math.isinf(value) else value
