"""The learning schemes by name; how each is trained stands in the file of its family."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedcox.data.wording import did_you_mean
from fedcox.evaluation.scheme import AbstractScheme, Scheme
from fedcox.evaluation.schemes import cox, hazards
from fedcox.evaluation.schemes.boosting import Boosting
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton

#: In the order of tables and figures.
_ALL: tuple[AbstractScheme, ...] = (
    Scheme(
        "POOL",
        "Cox's model on pooled patients, by Newton's method",
        cox.train_pooled,
        federated=False,
    ),
    Scheme(
        "LOCAL",
        "Cox's model of each center alone; the mean of their indices",
        cox.train_each_center,
    ),
    Scheme(
        "ENS", "The mean of the log risks of the centers' own Cox models", cox.train_ensemble
    ),
    Boosting(),
    Scheme(
        "MINI",
        "Cox's loss on minibatches of pooled patients, by Adam",
        cox.train_on_pooled_batches,
        federated=False,
    ),
    Scheme(
        "N-FL", "Cox's loss stratified by center, on minibatches, by Adam", cox.train_on_batches
    ),
    Scheme(
        "N-FL-EXACT",
        "Cox's model stratified by center, by Newton's method",
        cox.train_stratified,
    ),
    Scheme(
        "DT-FL",
        "The discrete-time model on batches of stacked rows, by Adam",
        partial(hazards.train_on_cells, grouped=True),
    ),
    Scheme(
        "DT-FL-NEWTON",
        "The discrete-time model's exact optimum, by Newton's method",
        partial(hazards.train_to_optimum, grouped=True),
    ),
    Scheme(
        "PH-FL",
        "Proportional hazards, constant within pieces, on batches of stacked rows, by Adam",
        partial(hazards.train_on_cells, grouped=False),
    ),
    Scheme(
        "PH-FL-NEWTON",
        "Proportional hazards, constant within pieces: the exact optimum, by Newton's method",
        partial(hazards.train_to_optimum, grouped=False),
    ),
    hazards.FedAvg(),
    Scheme(
        "WEBDISCO",
        "The pooled Cox model from sums over risk sets, by Newton's method; leaks patients",
        partial(cox.train_webdisco, solver=Newton()),
        leaks=True,
    ),
    Scheme(
        "WEBDISCO-L-BFGS",
        "The pooled Cox model from sums over risk sets, by L-BFGS; leaks patients",
        partial(cox.train_webdisco, solver=LBFGS()),
        leaks=True,
    ),
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
