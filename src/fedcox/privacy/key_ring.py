"""The secrets a center holds in one session, and how its shares reach the others."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import (
    InvalidTag,
    X25519PrivateKey,
    agree,
    decrypt,
    digest,
    encrypt,
    expand,
    fields,
    raw_public,
)
from fedcox.privacy.messages import Announcement
from fedcox.privacy.session import Session
from fedcox.privacy.shamir import SECRET_BYTES, SHARE_BYTES, split


def master_digest(master: bytes) -> bytes:
    """By which a recovered master is known again."""
    return digest(b"fedcox master", master)


@dataclass(frozen=True, eq=False, repr=False)  # a secret must not get into a log
class OwnSecrets:
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
    """A center's own secrets together with the others' public keys."""

    name: str
    own: OwnSecrets
    session: Session
    pair_keys: Mapping[str, bytes] = field(init=False)  # each in common with one other center
    _share_keys: Mapping[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        announced = self.session.announcements
        pair_keys = {
            other: self._agreed(self.own.pair_key, announced[other].pair_key, b"pair", other)
            for other in self._others
        }
        share_keys = {
            other: self._agreed(self.own.share_key, announced[other].share_key, b"share", other)
            for other in self._others
        }
        object.__setattr__(self, "pair_keys", pair_keys)
        object.__setattr__(self, "_share_keys", share_keys)

    def boxes(self) -> dict[str, bytes]:
        """A share of the master for each other center, which only that center can read."""
        places = {name: self.session.place(name) for name in self._others}
        shares = split(self.own.master, list(places.values()), self.session.threshold)
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
        self, own: X25519PrivateKey, public: bytes, purpose: bytes, other: str
    ) -> bytes:
        info = fields(b"fedcox", purpose, *sorted((self.name, other)))
        try:
            return agree(own, public, salt=self.session.digest, info=info)
        except ValueError as error:
            raise SecureSumError(
                f"Center '{self.name}' cannot use the public key of center '{other}'."
            ) from error
