"""What a study would cost and could tell: from public numbers alone, before it is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedcox.data.wording import counted
from fedcox.errors import StudyError
from fedcox.study.notices import large_delta
from fedcox.study.power import (
    LEVEL,
    ONE_SD,
    OTHERS,
    POWER,
    AskedNoise,
    Effect,
    NoiseChoice,
    NoiseChooser,
)
from fedcox.study.study import Study
from fedcox.study.study_rules import masked_faults
from fedcox.study.study_tables import Noise
from fedcox.survival.bounds import MOST_EPSILON

#: A price that is less than this part of the one that was asked for is another one.
_LESS = 0.8
#: Fewer events a coefficient than this are few, with noise or without.
_FEW_EVENTS = 10
#: The curve goes from so small a part of the patients to as many times them.
_REACH, _POINTS = 10.0, 41
#: Numbers of patients of the table, in parts of those that are planned with.
_TABLE = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)


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
    [1.24, 1.12]
    >>> [round(ratio, 2) for ratio in planned.exact.smallest]
    [1.21, 1.1]

    Next: `to_dict()` for JSON; `fedcox plan study.toml --out plan` makes a page of it.
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

        smallest log ratio = (z_{1 − level/2} + z_power) · price / √(events · variance)

    study       to be planned; without a word on noise as hospitals run it, in secure sums and
                with noise that makes standard errors 5 % larger
    patients    about how many there will be in all centers; None: the study's own number
    events      about how many of them have the event; None: the study's own, or half
    centers     how many take part
    shares      of the levels whose effects are looked for: 0.2 for a level that a fifth have
    power       the chance to find the effect
    level       of the test, two-sided

    Returns a `fedcox.StudyPlan`; `price` is the factor by which noise makes standard errors
    larger, 1 without.

    >>> import fedcox
    >>> study = fedcox.Study(
    ...     outcome={"time": "days", "event": "died", "unit": "days"},
    ...     covariates={"age": {"type": "number", "min": 18, "max": 95}},
    ...     grid={"horizon": 1800},
    ... )
    >>> planned = fedcox.plan(study, patients=2000, events=900, shares=[0.2])
    >>> round(planned.own.epsilon, 1), round(planned.own.price, 2)
    (6.3, 1.05)
    >>> for effect, ratio in zip(planned.effects, planned.own.smallest):
    ...     print(f"{effect.label}: a hazard ratio of {ratio:.2f}, or more")
    20 % level: a hazard ratio of 1.28, or more
    one SD: a hazard ratio of 1.10, or more

    Next: `planned.choices` beside it; then the study with `privacy={"noise": …}`, and
    `fedcox.fit`. docs/how-to-protect-a-study.md.
    """
    base = _public(study, patients, events)
    noise = base.privacy.noise
    if not isinstance(noise, Noise):
        raise TypeError("A plan is made of a study with noise.")
    _check(base, centers, shares, power, level)
    effects = (*(Effect.of_level(share) for share in shares), ONE_SD)
    chooser = NoiseChooser(base, noise, centers, effects, power, level)
    return _planned(base, noise, chooser, exact=study.privacy.noise == "none")


def _planned(study: Study, noise: Noise, chooser: NoiseChooser, *, exact: bool) -> StudyPlan:
    """The plan of a study with noise; `exact` where its own sums are to be without."""
    asked = _asked(noise)
    at = noise.patients
    compared = list(dict.fromkeys([asked, *OTHERS]))
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
        events=noise.expected_events,
        centers=chooser.centers,
        masked=bool(study.privacy.secure_sums),
        delta=noise.delta,
        coefficients=len(study.schema.encoded_names),
        pieces=chooser.solver.pieces_wanted,
        power=chooser.power,
        level=chooser.level,
        effects=chooser.effects,
        choices=choices,
        table=tuple((chooser.without(size), chooser.with_noise(asked, size)) for size in sizes),
        curves=(
            tuple(chooser.without(number) for number in grid),
            *(tuple(chooser.with_noise(one, number) for number in grid) for one in compared),
        ),
        patients_for=chooser.patients_for(asked),
        remarks=tuple(_remarks(noise, own, chooser, exact=exact)),
    )


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


def _asked(noise: Noise) -> AskedNoise:
    return noise.price, noise.epsilon


def _remarks(
    noise: Noise, own: NoiseChoice, chooser: NoiseChooser, *, exact: bool
) -> list[str]:
    """What must be known of these numbers, the study's own first."""
    said = []
    if exact:
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
    elif noise.price is not None and own.price and own.price < 1.0 + _LESS * noise.price:
        said.append(
            f"Noise that makes standard errors {100 * noise.price:g} % larger would hide the "
            f"information of {counted(chooser.solver.columns, 'coefficient')}: there is less "
            "of it, and epsilon is larger than the price alone needs."
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
