"""The choices of a fit, and of a network's training, as objects: nothing of files.

`Plan` is what the mathematics needs of a study; `NetworkPlan` says more of the predictor, and
gives a `Plan` for the time and scale that centers agree on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Literal, get_args

from fedcox.errors import InputError
from fedcox.models.architecture import AbstractArchitecture
from fedcox.models.predictors.network import NetworkLink, Precision, SlideWeight
from fedcox.solvers.adam import Adam, NetworkAdam
from fedcox.solvers.federated_averaging import FederatedAveraging, NetworkAveraging
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.solver import AbstractSolver
from fedcox.solvers.training import AbstractTrainer, is_number
from fedcox.study.asked import question_words
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.time_grid import CensoredInterval

if TYPE_CHECKING:
    from fedcox.study.study import Study


SOLVERS: dict[str, type[Newton | LBFGS | Adam | FederatedAveraging]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "adam": Adam,
    "fedavg": FederatedAveraging,
}

#: Columns of a network's table as messages name them, more than any table has.
_COLUMNS = tuple(f"column {number}" for number in range(1, 16_385))
#: A public bound on follow-up: fifty years in days.
LONGEST = 18262.0


@dataclass(frozen=True)
class Plan:
    """Link, grid, reading of censored intervals, penalty and solver.

    Time is divided by `width`, by `edges`, into so many `pieces`, or at `every_event`; with
    none of these pieces are cut where the events are (grouped links: at every event). `horizon`
    None is agreed on by asking, up to `longest` where only sums over centers are seen.
    `resolution` is the unit of the record, None to be looked for; `few_pieces` cuts as between
    hospitals, wherever the patients are; `spline` is the number of parameters of a smooth
    baseline.
    """

    columns: tuple[str, ...]
    link: AbstractLink
    reading: CensoredInterval
    width: float | None
    horizon: float | None
    ridge: float
    solver: AbstractSolver
    longest: float = LONGEST
    edges: tuple[float, ...] | None = None
    pieces: int | None = None
    every_event: bool = False
    resolution: float | None = None
    few_pieces: bool = False
    spline: int | None = None

    @classmethod
    def of(cls, study: Study) -> Plan:
        settings = study.solver.model_dump()
        return cls(
            columns=study.schema.encoded_names,
            link=LINKS[study.model.link],
            reading=study.model.censored_interval,
            width=study.grid.width,
            horizon=study.grid.horizon,
            ridge=study.model.ridge,
            solver=SOLVERS[settings.pop("method")](**settings),
            longest=study.privacy.longest or LONGEST,
            edges=study.grid.edges,
            pieces=study.grid.pieces,
            every_event=study.grid.times is not None,
            resolution=study.outcome.resolution,
            spline=study.model.spline,
        )


@dataclass(frozen=True)
class NetworkPlan:
    """What is trained, and how: a network as φ, time, weights and solver.

        λ(t | x) = λ_k · exp(φ(x))        for t in piece k of time

    architecture    φ: `Perceptron`, `TileScorer`, `TileScorerWithTable` or `OwnModule`
    width           of the pieces or intervals, in the unit of time
    pieces          how many, cut where the events are, in place of a width; with neither as
                    many as have ten events each, 48 at most
    horizon         end of follow-up, in the unit of time; None is agreed on by asking
    link            "log" (above); "cloglog" and "logit" group time into intervals of a `width`
    reading         "include", "exclude" or "half": a patient censored inside an interval
    balanced        intervals of grouped time with the event weigh as much as all others
                    together; with "log" that would move λ_k alone, and is not done
    slide_weight    "slide" counts every slide once, "patient" every patient
    solver          `NetworkAdam`, `NetworkAveraging`, or under noise `PrivateNetwork`
    precision       "float32", "float64" or "bfloat16"
    device          "cpu" or "cuda", where centers in this process compute
    seed            of first weights and batches
    ranges          under noise, (low, high) of each column of the table: public numbers

    Under noise nothing may be asked beforehand: width and horizon must be given.

    >>> import fedcox
    >>> plan = fedcox.NetworkPlan(
    ...     fedcox.Perceptron(columns=2), solver=fedcox.NetworkAdam(epochs=10, validation=0.2)
    ... )
    >>> plan.link, plan.grouped
    ('log', False)

    Next: `fedcox.train_network(plan, federation)`. docs/how-to-train-a-network.md is the walk.
    """

    architecture: AbstractArchitecture
    width: float | None = None
    horizon: float | None = None
    link: NetworkLink = "log"
    reading: CensoredInterval = "include"
    balanced: bool = False
    slide_weight: SlideWeight = "slide"
    solver: AbstractTrainer = field(default_factory=NetworkAdam)
    precision: Precision = "float32"
    device: str = "cpu"
    seed: int = 0
    ranges: tuple[tuple[float, float], ...] | None = None
    pieces: int | None = None

    def __post_init__(self) -> None:
        faults = [*self._unknown(), *self._time(), *self._sizes()]
        if self.private is not None:
            faults += self._not_under_noise()
        elif self.ranges is not None:
            faults.append("ranges are for training under noise; leave them out.")
        if faults:
            raise InputError("This plan of a training cannot be used.", faults)

    @property
    def private(self) -> PrivateNetwork | None:
        """The solver, if it is one under noise."""
        return self.solver if isinstance(self.solver, PrivateNetwork) else None

    @property
    def before_training(self) -> Plan:
        """What centers agree on first: time and scale, as for coefficients.

        But no column goes because others add up to it, and the solver is not asked.
        """
        return Plan(
            columns=_COLUMNS,
            link=LINKS[self.link],
            reading=self.reading,
            width=self.width,
            horizon=self.horizon,
            ridge=1.0,
            solver=Newton(),
            pieces=self.pieces,
            few_pieces=True,
        )

    @property
    def grouped(self) -> bool:
        """Whether time is grouped."""
        return LINKS[self.link].grouped

    @property
    def weighs_events(self) -> bool:
        """Whether events count more than once."""
        return self.balanced and self.grouped

    def _unknown(self) -> Iterator[str]:
        if not isinstance(self.architecture, AbstractArchitecture):
            yield "architecture is none; take TileScorer, Perceptron, … or OwnModule."
        if not isinstance(self.solver, AbstractTrainer):
            yield "solver is none; take NetworkAdam, NetworkAveraging or PrivateNetwork."
        choices = {
            "link": get_args(NetworkLink),
            "reading": ("include", "exclude", "half"),
            "slide_weight": ("slide", "patient"),
            "precision": ("float32", "float64", "bfloat16"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                yield f"{name} is {getattr(self, name)!r}; it must be {' or '.join(allowed)}."

    def _time(self) -> Iterator[str]:
        link = LINKS.get(self.link)
        if link is not None and link.grouped and self.width is None:
            yield f"width is not given; the link {self.link!r} groups time and needs it."
        if link is not None and not link.grouped and self.reading != "include":
            yield f"reading is {self.reading!r}; the link {self.link!r} has none: leave it out."
        if self.width is not None and not (is_number(self.width) and self.width > 0):
            yield f"width is {self.width!r}; it must be a number above 0, in the unit of time."
        if self.pieces is not None and (
            not isinstance(self.pieces, Integral) or self.pieces < 1 or self.width is not None
        ):
            yield (
                f"pieces is {self.pieces!r}; it must be a whole number above 0, with the link "
                "'log' and without a width."
            )
        if self.horizon is not None and not (is_number(self.horizon) and self.horizon > 0):
            yield (
                f"horizon is {self.horizon!r}; it must be a number above 0, in the unit of "
                "time."
            )

    def _sizes(self) -> Iterator[str]:
        if not isinstance(self.seed, Integral) or self.seed < 0:
            yield f"seed is {self.seed!r}; it must be a whole number, not below 0."
        if any(not low < high for low, high in self.ranges or ()):
            yield "ranges must give a low and a higher number for every column."
        columns = getattr(self.architecture, "columns", None)
        if self.ranges is not None and columns not in (None, len(self.ranges)):
            yield f"There are ranges of {len(self.ranges)} columns; the network has {columns}."

    def _not_under_noise(self) -> Iterator[str]:
        if self.horizon is None:
            yield "Give a horizon: the longest follow-up would leave without noise."
        if self.width is None:
            yield "Give a width: counts of events would leave without noise."
        if self.balanced:
            yield "Leave balanced out: the counts behind the weights would leave without noise."
        if self.architecture.inputs != "bags" and self.ranges is None:
            yield (
                "Give the public ranges of the columns, low and high of each: means and "
                "spreads of the patients would leave without noise."
            )


def asked_by_training(plan: NetworkPlan, *, secure_sums: bool = False) -> dict[str, str]:
    """Every question that this training may ask, in about the order in which it does."""
    names = _under_noise(plan) if plan.private else _openly(plan, secure_sums)
    return {name: question_words(name) for name in names}


def _under_noise(plan: NetworkPlan) -> Iterator[str]:
    sampled = plan.private is not None and plan.private.sampling_rate < 1
    yield f"clipped network gradient{' of a sample' if sampled else ''}"


def _openly(plan: NetworkPlan, secure_sums: bool) -> Iterator[str]:
    yield "covariate sums"
    if plan.horizon is None:
        yield "last interval" if secure_sums else "longest follow-up"
    if not plan.grouped:
        yield "fractional times"
    yield from ("interval counts", "covariate scatter")
    yield from _solver(plan)
    yield "baseline diagonal"
    if plan.weighs_events:
        yield from ("baseline hessian", "baseline gradient", "baseline information")


def _solver(plan: NetworkPlan) -> Iterator[str]:
    solver = plan.solver
    if isinstance(solver, NetworkAveraging):
        yield "network steps"
    elif isinstance(solver, NetworkAdam) and solver.batching == "rows":
        yield "network gradient of a batch of cells"
    elif isinstance(solver, NetworkAdam):
        # A batch of everybody is asked without one.
        yield from ("network gradient", "network gradient of a batch")
    if isinstance(solver, NetworkAdam | NetworkAveraging) and solver.validation > 0:
        yield "network loss of held-out patients"


@dataclass(frozen=True)
class TrainingNoise:
    """The options about noise; without `epsilon` there is none.

    `steps` are rounds in all, and `clip` bounds the gradient of a patient.
    """

    epsilon: float | None
    delta: float | None
    planned_patients: int | None
    steps: int
    clip: float


@dataclass(frozen=True)
class NetworkSolverChoice:
    """The options of `fedcox slides train` that make a solver.

    Under noise the training has the rounds of `noise`; else it has `epochs`.
    """

    solver: Literal["adam", "fedavg"]
    epochs: int
    batch_size: int
    learning_rate: float
    local_epochs: int
    validation: float
    patience: int | None
    noise: TrainingNoise

    @property
    def length(self) -> int:
        """How many epochs the training has, or rounds under noise."""
        return self.epochs if self.noise.epsilon is None else self.noise.steps

    def made(self) -> AbstractTrainer:
        """The solver; options that would do nothing are refused, all at once."""
        faults = [*self._useless()]
        epsilon = self.noise.epsilon
        if epsilon is not None:
            faults += self._not_under_noise()
        if faults:
            raise InputError("These options do not go together.", faults)
        if epsilon is not None:
            return self._private(epsilon)
        if self.solver == "fedavg":
            return NetworkAveraging(
                self.epochs,
                self.local_epochs,
                self.batch_size,
                self.learning_rate,
                validation=self.validation,
                patience=self.patience,
            )
        return NetworkAdam(
            self.epochs,
            self.batch_size,
            self.learning_rate,
            validation=self.validation,
            patience=self.patience,
        )

    def _useless(self) -> Iterator[str]:
        if self.patience is not None and not self.validation:
            yield "--patience needs patients to judge by: say --validation 0.2, too."
        if self.local_epochs > 1 and self.solver != "fedavg":
            yield "--local-epochs goes with --solver fedavg."
        given = self.noise.delta is not None or self.noise.planned_patients is not None
        if self.noise.epsilon is None and given:
            yield "--delta and --planned-patients go with --epsilon."

    def _not_under_noise(self) -> Iterator[str]:
        if self.noise.delta is None:
            yield "--epsilon needs --delta, such as 1e-5."
        if self.noise.planned_patients is None:
            yield (
                "--epsilon needs --planned-patients, about how many take part: a public number."
            )
        if self.validation:
            yield "--validation would ask for more than --epsilon pays for; leave it out."
        if self.solver == "fedavg":
            yield "--epsilon has a solver of its own; leave --solver out."

    def _private(self, epsilon: float) -> PrivateNetwork:
        return PrivateNetwork(
            patients=self.noise.planned_patients or 0,
            epsilon=epsilon,
            delta=self.noise.delta or 0.0,
            steps=self.noise.steps,
            clip=self.noise.clip,
        )
