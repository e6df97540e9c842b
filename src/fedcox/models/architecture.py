"""Which network phi is: a closed list that a study can name, and a researcher's own module.

phi takes a patient's row of a table, a slide's bag of tiles, or both, and gives one number; it
never sees the interval. The hazard of a sample in interval m depends on α_m + phi, so the scale
β of the paper is 1 and the last layers have no bias: both would be redundant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fedcox.errors import WeightsError, from_extra
from fedcox.survival.bounds import between

if TYPE_CHECKING:
    from torch import nn

Inputs = Literal["table", "bags", "both"]

#: Units of a layer, features of a tile, columns of a table.
_MOST_UNITS = 16_384
_MOST_LAYERS = 100


def check_torch() -> None:
    """Raise, with what to install, where torch is missing; it comes with an extra."""
    with from_extra("torch", "deep"):
        import torch  # noqa: F401


class AbstractArchitecture(ABC):
    """A network to be: what it looks at, and how it is made."""

    name: str
    #: table: `module(rows (n, columns))` gives (n,) or (n, 1); bags: `module(bag (tiles,
    #: features))` gives one number; both: `module(row (columns,), bag)` gives one number.
    inputs: Inputs

    @abstractmethod
    def build(self) -> nn.Module:
        """A new module with fresh weights from torch's own generator."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What another machine needs to build the same."""


class _ListedArchitecture(AbstractArchitecture):
    """One that has a name of its own and numbers for fields."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def faults(self, columns: int | None) -> Iterator[str]:
        """A center has to hold all weights, and has so many `columns`, if that is known."""
        sizes: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        hidden, read = sizes["hidden"], sizes.get("columns")
        layers = hidden if isinstance(hidden, tuple) else (hidden,)
        yield from between("features", sizes.get("features"), 1, _MOST_UNITS)
        yield from between("columns", read, 1, _MOST_UNITS)
        yield from between("hidden layers", len(layers), 0, _MOST_LAYERS)
        for units in layers:
            yield from between("hidden", units, 1, _MOST_UNITS)
        if None not in (read, columns) and read != columns:
            yield f"the network reads {read} columns, and patients have {columns}"


@dataclass(frozen=True)
class TileScorer(_ListedArchitecture):
    """The paper's slide model: 1×1 convolutions, features → hidden → 1, averaged over tiles.

        φ(slide) = mean over its tiles x of  w · leaky(W x + b)

    features    of a tile, as the encoder gives them
    hidden      units, the rows of W
    slope       of the leaky rectifier below zero

    >>> import fedcox
    >>> network = fedcox.TileScorer(features=8, hidden=4).build()  # a torch module
    >>> sum(weights.numel() for weights in network.parameters())
    40

    Next: `fedcox.NetworkPlan(fedcox.TileScorer(256))`, then `fedcox.train_network`.
    """

    features: int = 256
    hidden: int = 128
    slope: float = 0.1

    name = "tile scorer"
    inputs = "bags"

    def __post_init__(self) -> None:
        _check(self.name, {"features": self.features, "hidden": self.hidden}, self.slope)

    def build(self) -> nn.Module:
        check_torch()
        from fedcox.models.tile_scorer import TileScorerNetwork

        return TileScorerNetwork(self.features, self.hidden, self.slope)


@dataclass(frozen=True)
class TileScorerWithTable(_ListedArchitecture):
    """The tile scorer, plus a linear term of the patient's columns.

        φ(row, slide) = c · row + mean over tiles x of  w · leaky(W x + b)

    features    of a tile, as the encoder gives them
    columns     of the patient's row of the table
    hidden      units, the rows of W
    slope       of the leaky rectifier below zero

    >>> import fedcox
    >>> network = fedcox.TileScorerWithTable(features=8, columns=2, hidden=4).build()
    >>> sum(weights.numel() for weights in network.parameters())
    42

    Next: `fedcox.NetworkPlan(…)`, over cohorts that have `covariates` and `bags`.
    """

    features: int
    columns: int
    hidden: int = 128
    slope: float = 0.1

    name = "tile scorer with table"
    inputs = "both"

    def __post_init__(self) -> None:
        sizes = {"features": self.features, "columns": self.columns, "hidden": self.hidden}
        _check(self.name, sizes, self.slope)

    def build(self) -> nn.Module:
        check_torch()
        from fedcox.models.tile_scorer import TileScorerWithTableNetwork

        return TileScorerWithTableNetwork(self.features, self.columns, self.hidden, self.slope)


@dataclass(frozen=True)
class Perceptron(_ListedArchitecture):
    """Layers of rectified units over a table; without any, φ is linear.

        φ(x) = w · relu(W_n … relu(W_1 x + b_1) … + b_n)

    columns     of the table: covariates of a patient, scaled jointly before
    hidden      units of each layer; (): φ(x) = w·x

    >>> import fedcox
    >>> network = fedcox.Perceptron(columns=2, hidden=(8,)).build()  # a torch module
    >>> sum(weights.numel() for weights in network.parameters())
    32

    Next: `fedcox.NetworkPlan(fedcox.Perceptron(2))`, then `fedcox.train_network`.
    """

    columns: int
    hidden: tuple[int, ...] = (32,)

    name = "perceptron"
    inputs = "table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        layers = {f"hidden layer {k}": size for k, size in enumerate(self.hidden, 1)}
        _check(self.name, {"columns": self.columns, **layers})

    def build(self) -> nn.Module:
        check_torch()
        from torch import nn

        parts: list[nn.Module] = []
        width = self.columns
        for size in self.hidden:
            parts += [nn.Linear(width, size), nn.ReLU()]
            width = size
        return nn.Sequential(*parts, nn.Linear(width, 1, bias=False))


@dataclass(frozen=True)
class OwnModule(AbstractArchitecture):
    """Any torch module of a researcher's as φ, under a name; it stays in this process.

    name        in messages and files
    inputs      what the module is called with: "table", rows (n, columns) for n numbers;
                "bags", one slide (tiles, features) for one number; "both", a row and a slide
    factory     makes the module: a class, or any function without arguments

    Batch normalisation and dropout are refused: what a patient adds must not depend on others.
    A bias of the last layer would be redundant beside the baseline. Parameters that need no
    gradient are left as they are made, so a part may be frozen.

    >>> import fedcox
    >>> from torch import nn
    >>> own = fedcox.OwnModule("linear", "table", lambda: nn.Linear(2, 1, bias=False))
    >>> own.build()
    Linear(in_features=2, out_features=1, bias=False)

    Next: `fedcox.NetworkPlan(own)`; to read its file again, `TrainedNetwork.load(path, own)`.
    """

    name: str
    inputs: Inputs
    _factory: Callable[[], nn.Module]

    def __post_init__(self) -> None:
        if self.inputs not in ("table", "bags", "both"):
            raise WeightsError(
                f"The module {self.name!r} must take 'table', 'bags' or 'both'; "
                f"found {self.inputs!r}."
            )

    def build(self) -> nn.Module:
        check_torch()
        # A factory may give the same module each time; it stays as its owner has it.
        return deepcopy(self._factory())

    def to_json(self) -> dict[str, Any]:
        raise WeightsError(
            f"The module {self.name!r} is code of yours and cannot be sent to other machines.",
            [f"Use one of: {', '.join(ARCHITECTURES)}; or run the study in one process."],
        )


#: Those that may travel and be read from a file: a new one is a class and its place here.
ARCHITECTURES: dict[str, type[_ListedArchitecture]] = {
    kind.name: kind for kind in (TileScorer, TileScorerWithTable, Perceptron)
}


def architecture_from_json(values: Mapping[str, Any]) -> AbstractArchitecture:
    """The architecture that `to_json` described; anything else is refused."""
    kind = ARCHITECTURES.get(str(values.get("name")))
    if kind is None:
        raise WeightsError(
            f"There is no architecture {values.get('name')!r}.",
            [f"Known are: {', '.join(ARCHITECTURES)}."],
        )
    try:
        return kind(**{key: value for key, value in values.items() if key != "name"})
    except TypeError as error:
        raise WeightsError(f"This is no description of a {kind.name}.", [str(error)]) from error


def _check(name: str, sizes: Mapping[str, object], slope: object = 0.0) -> None:
    faults = [
        f"{what} must be a whole number of at least 1; found {size!r}."
        for what, size in sizes.items()
        if isinstance(size, bool) or not isinstance(size, int) or size < 1
    ]
    if isinstance(slope, bool) or not isinstance(slope, int | float) or not 0 <= slope < 1:
        faults.append(f"slope must be a number from 0 to below 1; found {slope!r}.")
    if faults:
        raise WeightsError(f"This is no {name}.", faults)
