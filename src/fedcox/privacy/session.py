"""What the centers of one set-up have agreed on: who they are, their keys, how many suffice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import digest
from fedcox.privacy.identity import PublicIdentity
from fedcox.privacy.messages import Announcement, signed

FEWEST_CENTERS = 3


@dataclass(frozen=True, eq=False)
class Session:
    """The centers that announced keys, each verified by its identity.

    Every center works this out for itself. `digest` differs as soon as one key differs, so
    centers that were shown different keys are in different sessions and cannot be summed over.
    """

    study: str
    identities: Mapping[str, PublicIdentity]
    announcements: Mapping[str, Announcement]

    @cached_property
    def members(self) -> tuple[str, ...]:
        return tuple(sorted(self.announcements))

    @cached_property
    def digest(self) -> bytes:
        parts: list[bytes | str] = [b"fedcox session", self.study]
        for name in self.members:
            parts += [name, self.identities[name].raw, self.announcements[name].to_bytes()]
        return digest(*parts)

    @cached_property
    def threshold(self) -> int:
        """More than half: two disjoint groups cannot both be enough."""
        return len(self.members) // 2 + 1

    def place(self, name: str) -> int:
        """Where a center's share lies on the polynomial."""
        return self.members.index(name) + 1


def read_announcement(
    study: str, known: Mapping[str, PublicIdentity], name: str, message: bytes
) -> Announcement:
    """Verify one center's keys by the identity known beforehand."""
    parse = Announcement.from_bytes
    return signed(known, "keys", study.encode(), parse, name, message)


def read_session(
    study: str, known: Mapping[str, PublicIdentity], messages: Mapping[str, bytes]
) -> Session:
    """Verify every center's announcement by the identity known beforehand."""
    strangers = sorted(set(messages) - set(known))
    if strangers:
        raise SecureSumError(
            f"Nothing is known of {', '.join(strangers)}: a center's public identity must be "
            "known before its keys are used."
        )
    if len(messages) < FEWEST_CENTERS:
        raise SecureSumError(
            f"A secure sum needs at least {FEWEST_CENTERS} centers; there are {len(messages)}.",
            ["Of two centers each learns the other's numbers from the sum."],
        )
    announcements = {
        name: read_announcement(study, known, name, message)
        for name, message in messages.items()
    }
    return Session(study, {name: known[name] for name in messages}, announcements)


def checked_identities(known: Mapping[str, PublicIdentity]) -> dict[str, PublicIdentity]:
    """Everybody's identity, if no two centers have the same: one could speak for the other."""
    holders: dict[PublicIdentity, list[str]] = {}
    for name, identity in sorted(known.items()):
        holders.setdefault(identity, []).append(name)
    faults = [
        f"{' and '.join(names)} have the same identity; each center makes its own."
        for names in holders.values()
        if len(names) > 1
    ]
    if faults:
        raise SecureSumError("These identities cannot be told apart.", faults)
    return dict(known)


def checked_smallest_sum(smallest_sum: int) -> int:
    """The fewest centers a sum may be over, if it is enough to hide one of them."""
    if smallest_sum < FEWEST_CENTERS:
        raise SecureSumError(
            f"The smallest sum is over {FEWEST_CENTERS} centers or more, not {smallest_sum}.",
            ["Of two centers each learns the other's numbers from the sum."],
        )
    return smallest_sum
