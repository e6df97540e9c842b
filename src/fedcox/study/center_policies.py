"""Which policy has which center? As they are given, by name or for all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedcox.errors import InputError
from fedcox.federation.policy import Policy


def policies_by_center(
    given: Mapping[str | None, Policy], centers: Collection[str]
) -> dict[str, Policy]:
    """The policy of every center that has one; None in `given` stands for all other centers."""
    strangers = sorted(name for name in given if name is not None and name not in centers)
    if strangers:
        raise InputError(
            "A policy is given for a center that is not there.",
            [f"{name!r} is not among {', '.join(sorted(centers))}." for name in strangers],
        )
    policies = {name: given.get(name, given.get(None)) for name in centers}
    return {name: policy for name, policy in policies.items() if policy is not None}
