"""What the centers of one set-up have agreed on, and the secrets that each holds in it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import (
    SECRET_BYTES,
    SHARE_BYTES,
    InvalidTag,
    X25519PrivateKey,
    agree,
    decrypt,
    digest,
    encrypt,
    expand,
    fields,
    raw_public,
    split,
)
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


def master_digest(master: bytes) -> bytes:
    """By which a recovered master is known again."""
    return digest(b"fedcox master", master)


@dataclass(frozen=True, eq=False, repr=False)  # a secret must not get into a log
class SessionSecrets:
    """Made when a set-up begins and forgotten at the next.

    One key for pair masks, one for encrypting shares, and the master of the self masks.
    """

    pair_key: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    share_key: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    master: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_BYTES))

    @cached_property
    def announcement(self) -> Announcement:
        return Announcement(
            raw_public(self.pair_key), raw_public(self.share_key), master_digest(self.master)
        )


@dataclass(frozen=True, eq=False, repr=False)  # a secret must not get into a log
class KeyRing:
    """A center's secrets together with the others' public keys."""

    name: str
    secrets: SessionSecrets
    session: Session
    pair_keys: Mapping[str, bytes] = field(init=False)  # each in common with one other center
    _share_keys: Mapping[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        announced = self.session.announcements
        pair_keys = {
            other: self._agreed(
                self.secrets.pair_key, announced[other].pair_key, b"pair", other
            )
            for other in self._others
        }
        share_keys = {
            other: self._agreed(
                self.secrets.share_key, announced[other].share_key, b"share", other
            )
            for other in self._others
        }
        object.__setattr__(self, "pair_keys", pair_keys)
        object.__setattr__(self, "_share_keys", share_keys)

    def boxes(self) -> dict[str, bytes]:
        """A share of the master for each other center, which only that center can read."""
        places = {name: self.session.place(name) for name in self._others}
        shares = split(self.secrets.master, list(places.values()), self.session.threshold)
        return {
            name: encrypt(
                self._box_key(self.name, name),
                shares[place],
                bound_to=self._route(self.name, name),
            )
            for name, place in places.items()
        }

    def opened(self, sender: str, box: bytes) -> bytes:
        """The share in a box that `sender` closed for this center in this session."""
        key, route = self._box_key(sender, self.name), self._route(sender, self.name)
        try:
            share = decrypt(key, box, bound_to=route)
        except InvalidTag:
            share = b""
        if len(share) != SHARE_BYTES:
            raise SecureSumError(
                f"Center '{self.name}' cannot use the share of center '{sender}': it was "
                "altered, or is meant for another center or session."
            )
        return share

    @property
    def _others(self) -> list[str]:
        return [name for name in self.session.members if name != self.name]

    def _route(self, sender: str, receiver: str) -> bytes:
        return fields(self.session.digest, sender, receiver)

    def _box_key(self, sender: str, receiver: str) -> bytes:
        """One for each direction, since a key closes one box only."""
        other = receiver if sender == self.name else sender
        return expand(self._share_keys[other], sender, receiver)

    def _agreed(
        self, private: X25519PrivateKey, public: bytes, purpose: bytes, other: str
    ) -> bytes:
        info = fields(b"fedcox", purpose, *sorted((self.name, other)))
        try:
            return agree(private, public, salt=self.session.digest, info=info)
        except ValueError as error:
            raise SecureSumError(
                f"Center '{self.name}' cannot use the public key of center '{other}'."
            ) from error
