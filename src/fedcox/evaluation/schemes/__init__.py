"""The learning schemes by name, each in the file of its family."""

from __future__ import annotations

from collections.abc import Sequence

from fedcox.data.wording import did_you_mean
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes.boosting import Boosting
from fedcox.evaluation.schemes.cox import (
    Ensemble,
    Local,
    Minibatch,
    Naive,
    Pooled,
    Stratified,
    WebDisco,
    WebDiscoGradient,
)
from fedcox.evaluation.schemes.hazards import (
    DiscreteTime,
    DiscreteTimeNewton,
    FedAvg,
    PiecewiseHazards,
    PiecewiseHazardsNewton,
)

#: In the order of tables and figures.
_ALL: tuple[AbstractScheme, ...] = (
    Pooled(),
    Local(),
    Ensemble(),
    Boosting(),
    Minibatch(),
    Naive(),
    Stratified(),
    DiscreteTime(),
    DiscreteTimeNewton(),
    PiecewiseHazards(),
    PiecewiseHazardsNewton(),
    FedAvg(),
    WebDisco(),
    WebDiscoGradient(),
)

SCHEMES: dict[str, AbstractScheme] = {scheme.name: scheme for scheme in _ALL}


def schemes_named(names: Sequence[str]) -> tuple[AbstractScheme, ...]:
    """The known ones of these, in this order; lower case will do."""
    known = {name.upper(): scheme for name, scheme in SCHEMES.items()}
    return tuple(known[name.upper()] for name in names if name.upper() in known)


def scheme_faults(names: Sequence[str]) -> list[str]:
    """Which names are unknown, and then what there is to choose from; nothing if all are."""
    upper = {name.upper() for name in SCHEMES}
    unknown = [
        f"There is no scheme {name!r}.{did_you_mean(name, [*SCHEMES])}"
        for name in names
        if name.upper() not in upper
    ]
    if not unknown:
        return []
    choice = [f"{scheme.name}: {scheme.summary}." for scheme in SCHEMES.values()]
    return [*unknown, "The schemes are these:", *choice]
