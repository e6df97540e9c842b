"""A center's side of a secure sum: what it sends, and what it refuses to send.

It trusts no message of the coordinator. Of another center it gives either the keys of one
round's pair masks, where that center dropped before it sent, or a share of its self-mask
master, where it vanished after: never both. Either way that center is no longer active, and
only centers that are can be part of a round; it comes back with the next set-up, or not at all
where a center remembers sums without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import xor
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import Identity, PublicIdentity
from fedcox.privacy.masks import (
    CHECK,
    openings,
    pair_mask_key,
    released_context,
    round_context,
    round_seed,
    self_mask_key,
    with_masks,
)
from fedcox.privacy.messages import (
    ByName,
    CentersOfRound,
    Recovery,
    Release,
    read,
    sign,
)
from fedcox.privacy.session import (
    KeyRing,
    SessionSecrets,
    checked_identities,
    checked_smallest_sum,
    read_session,
)

if TYPE_CHECKING:
    from fedcox.privacy.study_memory import StudyMemory


@dataclass(frozen=True, eq=False)
class _Round:
    """The round that is under way: who takes part, for whom it was released, who is left.

    One that is `whole` is released for all its centers or not at all.
    """

    number: int
    context: bytes
    centers: frozenset[str]
    whole: bool = False
    survivors: frozenset[str] | None = None
    present: frozenset[str] | None = None


class SecureSumCenter:
    """One center in the secure sums of one study.

    `known` are the public identities of all centers of the study, agreed beforehand and not by
    way of the coordinator. `smallest_sum` is this center's own limit: it takes part in no sum
    over fewer centers. Secrets live in memory and are made anew at every set-up.

    With a `memory` on the disk a center that a sum was opened without stays out of all later
    set-ups, whatever is restarted. Else one after the other could be lost and come back, and
    each be told by subtraction.
    """

    def __init__(
        self,
        name: str,
        study: str,
        identity: Identity,
        known: Mapping[str, PublicIdentity],
        *,
        smallest_sum: int = 3,
        memory: StudyMemory | None = None,
    ) -> None:
        if known.get(name) != identity.public:
            raise SecureSumError(
                f"Center '{name}' is not known by the identity it has.",
                ["Give all centers the public identity that belongs to its private key."],
            )
        self.name = name
        self._what = f"A message to center '{name}'"
        self._study = study
        self._identity = identity
        self._known = checked_identities(known)
        #: The fewest centers that a sum with this one in it can be over: of all centers of the
        #: study, not of a session that a coordinator may have made small.
        self.fewest_centers = max(len(known) // 2 + 1, checked_smallest_sum(smallest_sum))
        self._memory = memory
        before = None if memory is None else memory.now.centers
        # Those that every set-up so far was with, and with a memory every sum.
        self._once = frozenset(known) if before is None else before
        self._start_anew()

    def _start_anew(self) -> None:
        self._secrets = SessionSecrets()
        self._ring: KeyRing | None = None
        self._shares: dict[str, bytes] = {}
        self._active: frozenset[str] = frozenset()
        self._round: _Round | None = None

    def handle(self, step: str, message: bytes) -> bytes:
        """Answer one protocol message of the coordinator, or refuse with a SecureSumError."""
        steps: dict[str, Callable[[bytes], bytes]] = {
            "keys": self._announce,
            "shares": self._share,
            "release": self._release,
            "recovery": self._recover,
        }
        if step not in steps:
            raise self._refusal(f"there is no step '{step}'")
        return steps[step](message)

    def accept(self, shares: bytes) -> None:
        """Take the others' shares, without which nothing is masked; more are not looked at."""
        ring = self._ring
        if ring is None:
            raise self._refusal("it expects no shares now")
        if self._shares:  # the first question may come twice
            return
        boxes = read(ByName.from_bytes, shares, self._what).parts
        # A share that can be read shows that its sender saw the same keys of all centers, now:
        # so nobody's old keys, which may have become known, can have been shown to this one.
        if {*boxes, self.name} != set(ring.session.members) or self.name in boxes:
            raise self._refusal("it needs one share from every other center of the session")
        self._shares = {name: ring.opened(name, box) for name, box in boxes.items()}

    def masked(
        self,
        round_number: int,
        query: bytes,
        vector: UIntArray,
        centers: Collection[str],
        *,
        whole: bool = False,
    ) -> bytes:
        """Mask and sign the vector of one round, at most once.

        `query` is a fingerprint of what was asked. `centers` take part in the round; whoever
        is not among them stays out until the next set-up. A `whole` round is not opened
        without one of them.
        """
        if vector.dtype != np.uint64 or vector.ndim != 1:
            raise TypeError("A vector is one row of integers mod 2^64 (uint64).")
        ring, asked = self._ready(), frozenset(centers)
        last = 0 if self._round is None else self._round.number
        if not last < round_number < 2**32:
            raise self._refusal(
                f"round {round_number} does not come after round {last}, and each is answered "
                "once"
            )
        if len(asked) != len(centers):
            raise self._refusal("each center of a round is named once")
        self._check_centers(asked, self._active)
        context = round_context(self._study, ring.session.digest, round_number, query, asked)
        self._active = asked
        self._round = _Round(round_number, context, asked, whole)
        keys = {
            name: pair_mask_key(ring.pair_keys[name], context) for name in asked - {self.name}
        }
        masked = with_masks(
            np.append(vector, CHECK),
            added=[
                self_mask_key(round_seed(ring.secrets.master, context)),
                *(key for name, key in keys.items() if self.name < name),
            ],
            subtracted=[key for name, key in keys.items() if self.name > name],
        )
        return sign(
            self._identity, "vector", context, self.name, masked.astype("<u8").tobytes()
        )

    def _announce(self, _: bytes) -> bytes:
        self._start_anew()
        body = self._secrets.announcement.to_bytes()
        return sign(self._identity, "keys", self._study.encode(), self.name, body)

    def _share(self, message: bytes) -> bytes:
        announced = read(ByName.from_bytes, message, self._what).parts
        session = read_session(self._study, self._known, announced)
        strangers = sorted(set(session.members) - self._once)
        if strangers:
            raise self._refusal(
                f"{', '.join(strangers)} was left out of an earlier set-up or sum of this "
                "study; sums with and without a center give it away"
            )
        if session.announcements.get(self.name) != self._secrets.announcement:
            raise self._refusal("the keys shown as its own are not those it announced")
        if self._ring is not None:
            raise self._refusal("it shares its secrets once; a new set-up begins with new keys")
        self._ring = KeyRing(self.name, self._secrets, session)
        self._active = frozenset(session.members)
        self._keep(self._active)
        boxes = ByName(self._ring.boxes()).to_bytes()
        return sign(self._identity, "shares", session.digest, self.name, boxes)

    def _release(self, message: bytes) -> bytes:
        ring, current, survivors = self._asked(message)
        if current.survivors not in (None, survivors):
            raise self._refusal(
                f"round {current.number} was released for another set of centers; two sets "
                "would give away their difference"
            )
        if current.whole and survivors != current.centers:
            raise self._refusal(
                f"round {current.number} repeats noise that may be in a sum over all its "
                "centers; without one of them it would tell that one's reply"
            )
        self._check_centers(survivors, current.centers)
        if current.survivors is None:
            if self._memory is not None:
                self._keep(survivors)
            self._round = replace(current, survivors=survivors)
            self._active = survivors
        released = released_context(current.context, survivors)
        pairs = [
            openings(ring.pair_keys[name], released, self.name, name)
            for name in sorted(survivors - {self.name})
        ]
        seed = round_seed(ring.secrets.master, current.context)
        reply = Release(
            xor(seed, *[pair.needed for pair in pairs]),
            tuple([pair.given for pair in pairs]),
            tuple(
                [
                    pair_mask_key(ring.pair_keys[name], current.context)
                    for name in sorted(current.centers - survivors)
                ]
            ),
        )
        return sign(self._identity, "release", released, self.name, reply.to_bytes())

    def _recover(self, message: bytes) -> bytes:
        ring, current, present = self._asked(message)
        survivors = self._check_present(current, present)
        self._round = replace(current, present=present)
        self._active = present
        released = released_context(current.context, survivors)
        vanished = sorted(survivors - present)
        pairs = [openings(ring.pair_keys[name], released, self.name, name) for name in vanished]
        body = Recovery(
            tuple(pair.needed for pair in pairs),
            tuple(self._shares[name] for name in vanished),
        ).to_bytes()
        where = released_context(released, present)
        return sign(self._identity, "recovery", where, self.name, body)

    def _asked(self, message: bytes) -> tuple[KeyRing, _Round, frozenset[str]]:
        """The round under way that a message is about, and the centers it names."""
        asked = read(CentersOfRound.from_bytes, message, self._what)
        if self._round is None or self._round.number != asked.round_number:
            raise self._refusal(f"round {asked.round_number} is not under way")
        return self._ready(), self._round, frozenset(asked.centers)

    def _keep(self, once: frozenset[str]) -> None:
        """On the disk first, where there is a memory, and then true."""
        if self._memory is not None and once != self._memory.now.centers:
            self._memory.keep(centers=once)
        self._once = once

    def _check_centers(self, asked: frozenset[str], allowed: frozenset[str]) -> None:
        """A sum is over some of those that may be in it, this center too, and over enough."""
        if self.name not in asked:
            raise self._refusal("it must be named among the centers of a sum")
        if not asked <= allowed:
            raise self._refusal(
                f"{', '.join(sorted(asked - allowed))} cannot take part: not of this session "
                "or round, or out of it since an earlier one"
            )
        if len(asked) < self.fewest_centers:
            raise self._refusal(
                f"the sum would be over {len(asked)} centers, and {self.fewest_centers} are "
                "needed"
            )

    def _check_present(self, current: _Round, present: frozenset[str]) -> frozenset[str]:
        survivors = current.survivors
        if survivors != current.centers or survivors is None:
            raise self._refusal(
                f"shares are given only in a round that was released for all its centers, and "
                f"round {current.number} was not"
            )
        before = current.present or survivors
        if self.name not in present or not present <= before:
            raise self._refusal("those present are survivors, itself among them")
        needed = self._ready().session.threshold
        if len(present) < needed:
            raise self._refusal(f"{len(present)} centers are present, and {needed} are needed")
        return survivors

    def _ready(self) -> KeyRing:
        if self._ring is None or not self._shares:
            raise self._refusal("the set-up is not complete")
        return self._ring

    def _refusal(self, reason: str) -> SecureSumError:
        return SecureSumError(f"Center '{self.name}' refuses: {reason}.")
