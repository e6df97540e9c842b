"""The tables of a study file: which keys there are, of which type, with which default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from fedcox.data.schema import CategoryColumn, MissingRule, NumberColumn, ZeroTimeRule
from fedcox.federation.compression import CompressionName
from fedcox.survival.bounds import MOST_EPSILON
from fedcox.survival.link import LinkName

ColumnName = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
OutcomeValue = str | int | bool | Finite


class Table(BaseModel):
    """One table of the study file: no unknown key, nothing converted, nothing changed later."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class About(Table):
    """`[study]`: what it is called, and which column identifies a patient."""

    name: Annotated[str, Field(min_length=1)] = "study"
    patient_id: ColumnName | None = None


class Outcome(Table):
    """`[outcome]`: follow-up time and event, as the hospitals' files have them."""

    time: ColumnName = Field(description="the column with the follow-up time")
    event: ColumnName = Field(description="the column that says whether the event happened")
    event_value: OutcomeValue = 1
    censored_value: OutcomeValue | None = None
    unit: Annotated[str, Field(min_length=1)] | None = None
    resolution: Positive | None = None
    min: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max: Positive | None = None
    zero_times: ZeroTimeRule = "refuse"


class NumberCovariate(Table):
    """A covariate measured in numbers."""

    name: ColumnName
    type: Literal["number"] = "number"
    min: Finite | None = None
    max: Finite | None = None

    @property
    def column(self) -> NumberColumn:
        return NumberColumn(self.name, self.min, self.max)


def _level(value: object) -> object:
    """Levels are text; a whole number or a truth value is written as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Level = Annotated[str, Field(min_length=1), BeforeValidator(_level)]


class CategoryCovariate(Table):
    """A covariate with named levels, each compared with the reference."""

    name: ColumnName
    type: Literal["category"]
    levels: Annotated[tuple[Level, ...], BeforeValidator(_tuple)] = Field(
        description="the list of the category's levels"
    )
    reference: Level = Field(description="the level the others are compared with")

    @property
    def column(self) -> CategoryColumn:
        return CategoryColumn(self.name, self.levels, self.reference)


class Grid(Table):
    """`[grid]`: how time is divided, and where it ends.

    One of the first four at most; with none of them pieces are cut where the events are.
    """

    pieces: AtLeastOne | None = None
    edges: (
        Annotated[
            tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
            Field(min_length=1),
            BeforeValidator(_tuple),
        ]
        | None
    ) = None
    width: Positive | None = None
    times: Literal["events"] | None = None
    horizon: Positive | None = None


#: Numbers of a baseline whose log hazard is a natural spline of log time.
DEFAULT_DF = 5


class Model(Table):
    """`[model]`: how covariates act on the hazard, and what happens at the edges."""

    link: LinkName = "log"
    baseline: Literal["pieces", "spline"] = "pieces"
    df: Annotated[int, Field(ge=2, le=12)] | None = None
    censored_interval: Literal["include", "exclude", "half"] = "include"
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    missing: MissingRule = "refuse"

    @property
    def spline(self) -> int | None:
        """How many numbers a smooth baseline has; None for one number a piece."""
        return (self.df or DEFAULT_DF) if self.baseline == "spline" else None


class NewtonSolver(Table):
    """Second order; few rounds."""

    method: Literal["newton"] = "newton"
    tolerance: Positive = 1e-14
    max_rounds: AtLeastOne = 50


class LbfgsSolver(Table):
    """First order with memory; a time × covariate block leaves only in the last round."""

    method: Literal["lbfgs"]
    scaling: Literal["diagonal", "block"] = "diagonal"
    tolerance: Positive = 1e-12
    max_rounds: AtLeastOne = 500
    memory: AtLeastOne = 10


class AdamSolver(Table):
    """The paper's optimiser, on full batches or on batches drawn over all patients.

    With a `compression` gradients travel in fewer bytes; `keep` is the share of their entries
    that "top-k" and "random-k" send, a tenth if nobody says.
    """

    method: Literal["adam"]
    learning_rate: Positive = 1e-2
    steps: AtLeastOne = 2000
    batch_size: AtLeastOne | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    compression: CompressionName = "none"
    keep: Positive | None = None


class FedavgSolver(Table):
    """Steps of every center's own, then their mean: near the pooled optimum, not at it.

    Without a `learning_rate` it is the one that suits the descent.
    """

    method: Literal["fedavg"]
    learning_rate: Positive | None = None
    rounds: AtLeastOne = 100
    local_steps: AtLeastOne = 5
    descent: Literal["scaled", "sgd", "adam"] = "scaled"


def _newton_if_unnamed(solver: object) -> object:
    return {"method": "newton", **solver} if isinstance(solver, Mapping) else solver


SOLVERS: Mapping[str, type[Table]] = {
    "newton": NewtonSolver,
    "lbfgs": LbfgsSolver,
    "adam": AdamSolver,
    "fedavg": FedavgSolver,
}
COVARIATES: Mapping[str, type[Table]] = {
    "number": NumberCovariate,
    "category": CategoryCovariate,
}
Solver = Annotated[
    Annotated[
        NewtonSolver | LbfgsSolver | AdamSolver | FedavgSolver,
        Field(discriminator="method"),
    ],
    BeforeValidator(_newton_if_unnamed),
]
Covariate = Annotated[NumberCovariate | CategoryCovariate, Field(discriminator="type")]


def _with_names(covariates: object) -> object:
    """The short form (a list of names) and the table, both as a sequence of covariates."""
    if isinstance(covariates, Mapping):
        return tuple(
            {**settings, "name": name} if isinstance(settings, Mapping) else settings
            for name, settings in covariates.items()
        )
    if isinstance(covariates, list | tuple):
        return tuple(
            {"name": entry, "type": "number"} if isinstance(entry, str) else entry
            for entry in covariates
        )
    return covariates


Covariates = Annotated[tuple[Covariate, ...], Field(min_length=1), BeforeValidator(_with_names)]


#: Of noise, where a study says neither this nor an epsilon.
USUAL_PRICE = 0.05


class Noise(Table):
    """`[privacy.noise]`: noise on every sum, and standard errors that know it.

    Either the `epsilon` that all sums of the study spend, or the `price`: by what part noise
    may make standard errors larger, so that epsilon follows; a twentieth if nobody says.
    `patients` is about how many take part in all centers and `events` about how many of them
    have the event, half of them if nobody says: public numbers.
    """

    epsilon: Annotated[float, Field(gt=0, le=MOST_EPSILON)] | None = None
    price: Annotated[float, Field(gt=0, le=1)] | None = None
    delta: Annotated[float, Field(ge=1e-15, le=0.01)] = 1e-5
    patients: AtLeastOne = Field(
        description="about how many patients take part, a public number"
    )
    events: AtLeastOne | None = None

    @property
    def expected_events(self) -> int:
        return max(1, self.patients // 2) if self.events is None else self.events


def _with_price(noise: object) -> object:
    """The usual price, where the table says neither what may be spent nor what it may cost."""
    if isinstance(noise, Mapping) and not {"epsilon", "price"} & set(noise):
        return {**noise, "price": USUAL_PRICE}
    return noise


def _table_or_word(noise: object) -> str:
    return "word" if isinstance(noise, str) else "table"


#: A table, or the word that there is none.
GivenNoise = Annotated[
    Annotated[
        Annotated[Noise, Tag("table")] | Annotated[Literal["none"], Tag("word")],
        Discriminator(_table_or_word),
    ],
    BeforeValidator(_with_price),
]


class Privacy(Table):
    """`[privacy]`: what the coordinator may see.

    `longest` bounds follow-up where the grid has no horizon and
    only sums are seen, 18262 days or fifty years without one of its own. `noise` is "none", or
    what `[privacy.noise]` says. Without a word on `secure_sums` and `noise` a study is plain
    and exact in one process, and both are asked for between hospitals
    (`Study.between_hospitals`).
    """

    secure_sums: bool | None = None
    longest: Positive | None = None
    noise: GivenNoise | None = None

    @property
    def noised(self) -> bool:
        """Whether every sum leaves with noise."""
        return isinstance(self.noise, Noise)


class Attendance(Table):
    """`[attendance]`: how many centers must answer, and within how many seconds each time.

    Without `needed` it is all of them. It matters where centers are on other machines.
    """

    needed: AtLeastOne | None = None
    timeout: Positive | None = None

    def among(self, centers: int) -> int:
        """How many of so many invited centers must be in every sum."""
        return centers if self.needed is None else self.needed
