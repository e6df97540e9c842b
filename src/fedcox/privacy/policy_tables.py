"""The tables of a hospital's policy: which limits there are, with which default."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

#: Questions a fit by Newton, L-BFGS or private descent needs, and the training of a network
#: under noise. Missing on purpose: single patients' event times, steps that a center takes by
#: itself, stacked rows, and gradients of networks without noise.
QUESTIONS = (
    "patients and events",
    "covariate sums",
    "covariate scatter",
    "longest follow-up",
    "last interval",
    "interval counts",
    "fractional times",
    "gradient",
    "diagonal",
    "block",
    "hessian",
    "information",
    "compressed gradient",
    "noised life table",
    "noised covariate moments",
    "noised covariate products",
    "noised event moments",
    "noised score",
    "noised information",
    "clipped network gradient",
    "clipped network gradient of a sample",
)
#: What a hospital must name to have it asked: the training of a network without noise, and
#: the reduction of slides' features.
BY_NAME_ONLY = (
    "network gradient",
    "network gradient of a batch",
    "network gradient of a batch of cells",
    "network loss of held-out patients",
    "network steps",
    "baseline diagonal",
    "baseline hessian",
    "baseline gradient",
    "baseline information",
    "tile counts",
    "tile moments",
)


def _only(test: Callable[[Any], bool], needed: str) -> BeforeValidator:
    """Values that pass `test`; others are told what is `needed`."""

    def checked(value: Any) -> Any:
        if not test(value):
            raise PydanticCustomError("not_what_is_needed", "{needed}", {"needed": needed})
        return tuple(value) if isinstance(value, list) else value

    return BeforeValidator(checked)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _limit(value: Any) -> bool:
    return _number(value) and value >= 0


def _times(value: Any) -> bool:
    return _whole(value) or value == math.inf


def _names(value: Any) -> bool:
    listed = isinstance(value, list | tuple)
    return value == "all" or (listed and all(isinstance(n, str) and n for n in value))


Fewest = Annotated[int, _only(_whole, "a whole number of at least 0")]
Limit = Annotated[float, _only(_limit, "a number of at least 0, or inf for no limit")]
Times = Annotated[float, _only(_times, "a whole number of at least 0, or inf for no limit")]
Names = Annotated[
    Literal["all"] | tuple[str, ...], _only(_names, 'a list of names in quotes, or "all"')
]
Truth = Annotated[bool, _only(lambda value: isinstance(value, bool), "true or false")]
Centers = Annotated[int, _only(lambda v: _whole(v) and v >= 1, "a whole number of at least 1")]
Epsilon = Annotated[
    float, _only(lambda v: _number(v) and 0 < v < math.inf, "a finite number above 0")
]
Delta = Annotated[float, _only(lambda v: _number(v) and 0 < v < 1, "a number between 0 and 1")]
SecureSums = Annotated[
    Literal["required", "optional"],
    _only(lambda v: v in ("required", "optional"), '"required" or "optional"'),
]
PatientLevel = Annotated[
    Literal["never", "masked", "always"],
    _only(lambda v: v in ("never", "masked", "always"), '"never", "masked" or "always"'),
]


class Table(BaseModel):
    """One table of the policy: no unknown key, nothing converted, nothing changed later."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CohortLimits(Table):
    """`[cohort]`: how many patients there must be before anything is answered."""

    patients: Fewest = Field(
        default=20, description="fewest patients of this hospital in a study"
    )
    events: Fewest = Field(default=5, description="fewest events among them")
    parameters_per_patient: Limit = Field(
        default=0.33,
        description="most parameters of a model for each patient; under secure sums for each "
        "patient of all centers, where their number is told",
    )
    columns: Names = Field(
        default="all", description='columns of the file that a study may use, or "all"'
    )


class GroupLimits(Table):
    """`[groups]`: how few patients a part of a reply may describe."""

    interval: Fewest = Field(
        default=5,
        description="fewest patients who leave the risk set in one interval; under secure sums "
        "counted over all centers",
    )
    level: Fewest = Field(
        default=5,
        description="fewest patients with, and without, a level of a covariate; under secure "
        "sums counted over all centers",
    )
    batch: Fewest = Field(default=20, description="fewest patients of this hospital in a batch")
    one_grid: Truth = Field(
        default=True,
        description="whether intervals may be joined later, and not be cut anywhere else",
    )


class BlockLimits(Table):
    """`[blocks]`: replies by interval and covariate at once, whose differences are patients."""

    only_masked: Truth = Field(
        default=True, description="whether they are given under secure sums alone"
    )
    group: Fewest = Field(
        default=10, description="fewest patients who leave in one interval of them"
    )
    times: Times = Field(default=8, description="how often in a study; 0 is never")


class QuestionLimits(Table):
    """`[questions]`: what may be asked at all."""

    allowed: Names = Field(
        default=QUESTIONS,
        description='questions that are answered, by their name in the ledger, or "all"; '
        "networks without noise and features of slides are asked about where these are added: "
        f"{', '.join(BY_NAME_ONLY)}",
    )
    patient_level: PatientLevel = Field(
        default="masked",
        description="single patients' values, such as the longest follow-up: never, masked "
        "(only the largest of all centers is seen) or always",
    )
    refusals: Times = Field(
        default=20,
        description="after so many refused questions a study is answered no more: each tells "
        "that a limit was broken",
    )


class ParameterLimits(Table):
    """`[parameters]`: at which parameters, on covariates scaled to a spread of one."""

    alpha: Limit = Field(default=15.0, description="largest size of any interval's log hazard")
    beta: Limit = Field(default=5.0, description="largest length of the vector of coefficients")
    alpha_step: Limit = Field(
        default=3.0, description="most that any of the first may move between two questions"
    )
    beta_step: Limit = Field(
        default=3.0, description="most that the second may move; a study starts without effects"
    )
    share: Limit = Field(
        default=0.5,
        description="largest share that one patient of this hospital may have in a sum, over "
        "all intervals or in one of them",
    )
    rounds: Times = Field(default=200, description="most questions with parameters in a study")


class ProtectionLimits(Table):
    """`[protection]`: who may see a reply."""

    secure_sums: SecureSums = Field(
        default="required",
        description="required: only the sum over centers may be seen; optional: this "
        "hospital's own reply too",
    )
    centers: Centers = Field(default=3, description="fewest centers in a secure sum")


class NoiseLimits(Table):
    """`[differential_privacy]`: the only limit that is a guarantee."""

    required: Truth = Field(
        default=False, description="whether a reply without noise is refused"
    )
    epsilon: Epsilon | None = Field(
        default=None, description="most epsilon that all studies together may spend"
    )
    delta: Delta | None = Field(
        default=None, description="most delta that all studies together may spend"
    )
