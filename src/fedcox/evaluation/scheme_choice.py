"""From the names a user gives to the schemes they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from fedcox.data.wording import did_you_mean
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes import SCHEMES


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
