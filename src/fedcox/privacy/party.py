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
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import Identity, PublicIdentity
from fedcox.privacy.key_ring import KeyRing, OwnSecrets
from fedcox.privacy.masks import (
    CHECK,
    Masking,
    closed_seed,
    openings,
    pair_mask_key,
    released_context,
    round_context,
    round_seed,
)
from fedcox.privacy.messages import (
    ByName,
    CentersOfRound,
    MaskedVector,
    Recovery,
    Release,
    binding,
    read,
    sign,
)
from fedcox.privacy.session import (
    announcement_binding,
    checked_identities,
    checked_smallest_sum,
    read_session,
)
from fedcox.privacy.transcript import Transcript
from fedcox.privacy.unmasking import opened_seeds, read_releases, read_round, unmasked

if TYPE_CHECKING:
    from fedcox.privacy.study_memory import StudyMemory

_Parsed = TypeVar("_Parsed")


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


class Party:
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
        self._study = study
        self._identity = identity
        self._known = checked_identities(known)
        self._smallest_sum = checked_smallest_sum(smallest_sum)
        self._memory = memory
        before = None if memory is None else memory.now.centers
        # Those that every set-up so far was with, and with a memory every sum.
        self._once = frozenset(known) if before is None else before
        self._start_anew()

    def _start_anew(self) -> None:
        self._own = OwnSecrets()
        self._ring: KeyRing | None = None
        self._shares: dict[str, bytes] = {}
        self._active: frozenset[str] = frozenset()
        self._round: _Round | None = None

    @property
    def fewest_centers(self) -> int:
        """The fewest centers that a sum with this one in it can be over, in this session."""
        # Of all centers of the study, not of a session that a coordinator may have made small.
        return max(len(self._known) // 2 + 1, self._smallest_sum)

    def handle(self, step: str, message: bytes) -> bytes:
        """Answer one protocol message of the coordinator, or refuse with a SecureSumError."""
        steps: dict[str, Callable[[bytes], bytes]] = {
            "keys": self._announce,
            "shares": self._share,
            "delivery": self._accept,
            "release": self._release,
            "recovery": self._recover,
        }
        if step not in steps:
            raise self._refusal(f"there is no step '{step}'")
        return steps[step](message)

    def masked(
        self,
        round_number: int,
        question: bytes,
        vector: UIntArray,
        centers: Collection[str],
        *,
        whole: bool = False,
    ) -> bytes:
        """Mask and sign the vector of one round, at most once.

        `question` is the digest of what was asked. `centers` take part in the round; whoever is
        not among them stays out until the next set-up. A `whole` round is not opened without
        one of them.
        """
        if vector.dtype != np.uint64 or vector.ndim != 1:
            raise TypeError("A vector is one row of integers mod 2^64 (uint64).")
        ring = self._ready()
        self._check_round(round_number, centers)
        context = round_context(
            self._study, ring.session.digest, round_number, question, centers
        )
        self._active = frozenset(centers)
        self._round = _Round(round_number, context, self._active, whole)
        masking = Masking(np.append(vector, CHECK))
        masking.self_mask(round_seed(ring.own.master, context))
        for other in self._others(centers):
            masking.pair(pair_mask_key(ring.pair_keys[other], context), self.name, other)
        body = MaskedVector(round_number, masking.vector).to_bytes()
        return self._signed("vector", context, body)

    def checked_total(
        self, transcript: bytes, question: bytes, centers: Collection[str]
    ) -> UIntArray:
        """The sum of a finished round of this session, added up again by this center.

        It must be of this question and over exactly these centers, this one among them, and
        every message must be signed by the center it is said to be of.
        """
        session = self._ready().session
        found = read(Transcript.from_bytes, transcript, "The transcript of a sum")
        wanted = frozenset(centers)
        if found.question != question:
            raise self._refusal("the transcript is of another question")
        if self.name not in wanted or not wanted <= frozenset(session.members):
            raise self._refusal("it checks only sums of this session that it is part of")
        if not wanted == set(found.vectors) == set(found.releases):
            raise self._refusal("the transcript is of a sum over other centers")
        asked = found.round_number, question, found.centers
        current = read_round(session, *asked, found.vectors)
        if frozenset(current.survivors) != wanted:
            raise self._refusal("the transcript is of a round that these centers were not in")
        released = read_releases(session, current, found.releases)
        return unmasked(current, released, opened_seeds(released, current.survivors, {}))

    def _announce(self, _: bytes) -> bytes:
        self._start_anew()
        body = self._own.announcement.to_bytes()
        return sign(self._identity, announcement_binding(self._study, self.name), body)

    def _share(self, message: bytes) -> bytes:
        announced = self._read(ByName.from_bytes, message).parts
        session = read_session(self._study, self._known, announced)
        strangers = sorted(set(session.members) - self._once)
        if strangers:
            raise self._refusal(
                f"{', '.join(strangers)} was left out of an earlier set-up or sum of this "
                "study; sums with and without a center give it away"
            )
        if session.announcements.get(self.name) != self._own.announcement:
            raise self._refusal("the keys shown as its own are not those it announced")
        if self._ring is not None:
            raise self._refusal("it shares its secrets once; a new set-up begins with new keys")
        self._ring = KeyRing(self.name, self._own, session)
        self._keep(frozenset(session.members))
        return self._signed("shares", session.digest, ByName(self._ring.boxes()).to_bytes())

    def _accept(self, message: bytes) -> bytes:
        ring = self._ring
        if ring is None or self._shares:
            raise self._refusal("it expects no shares now")
        boxes = self._read(ByName.from_bytes, message).parts
        # A share that can be read shows that its sender saw the same keys of all centers, now:
        # so nobody's old keys, which may have become known, can have been shown to this one.
        if sorted(boxes) != self._others(ring.session.members):
            raise self._refusal("it needs one share from every other center of the session")
        self._shares = {name: ring.opened(name, box) for name, box in boxes.items()}
        self._active = frozenset(ring.session.members)
        return self._signed("delivery", ring.session.digest, b"")

    def _release(self, message: bytes) -> bytes:
        asked = self._read(CentersOfRound.from_bytes, message)
        ring, current = self._ready(), self._current(asked.round_number)
        survivors = frozenset(asked.centers)
        self._check_survivors(current, survivors)
        if current.survivors is None:
            if self._memory is not None:
                self._keep(survivors)
            self._round = replace(current, survivors=survivors)
            self._active = survivors
        released = released_context(current.context, survivors)
        others, dropped = self._others(survivors), sorted(current.centers - survivors)
        seed = round_seed(ring.own.master, current.context)
        pairs = [openings(ring.pair_keys[name], released, self.name, name) for name in others]
        reply = Release(
            closed_seed(seed, (pair.needed for pair in pairs)),
            tuple(pair.given for pair in pairs),
            tuple(pair_mask_key(ring.pair_keys[name], current.context) for name in dropped),
        )
        return self._signed("release", released, reply.to_bytes())

    def _recover(self, message: bytes) -> bytes:
        asked = self._read(CentersOfRound.from_bytes, message)
        ring, current = self._ready(), self._current(asked.round_number)
        present = frozenset(asked.centers)
        survivors = self._check_present(current, present)
        self._round = replace(current, present=present)
        self._active = present
        released = released_context(current.context, survivors)
        vanished = sorted(survivors - present)
        pairs = [openings(ring.pair_keys[name], released, self.name, name) for name in vanished]
        reply = Recovery(
            tuple(pair.needed for pair in pairs),
            tuple(self._shares[name] for name in vanished),
        )
        return self._signed("recovery", released_context(released, present), reply.to_bytes())

    def _keep(self, once: frozenset[str]) -> None:
        """On the disk first, where there is a memory, and then true."""
        if self._memory is not None and once != self._memory.now.centers:
            self._memory.keep(centers=once)
        self._once = once

    def _check_round(self, number: int, centers: Collection[str]) -> None:
        last = 0 if self._round is None else self._round.number
        if not last < number < 2**32:
            raise self._refusal(
                f"round {number} does not come after round {last}, and each is answered once"
            )
        asked = frozenset(centers)
        if self.name not in asked or len(asked) != len(centers):
            raise self._refusal(
                "it must be named among the centers of a round, each of them once"
            )
        out = sorted(asked - self._active)
        if out:
            raise self._refusal(
                f"{', '.join(out)} cannot take part: not of this session, or out of it since "
                "an earlier round"
            )
        self._check_number(asked)

    def _check_survivors(self, current: _Round, survivors: frozenset[str]) -> None:
        if current.survivors not in (None, survivors):
            raise self._refusal(
                f"round {current.number} was released for another set of centers; two sets "
                "would give away their difference"
            )
        if self.name not in survivors or not survivors <= current.centers:
            raise self._refusal("survivors are centers of the round, itself among them")
        if current.whole and survivors != current.centers:
            raise self._refusal(
                f"round {current.number} repeats noise that may be in a sum over all its "
                "centers; without one of them it would tell that one's reply"
            )
        self._check_number(survivors)

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

    def _check_number(self, centers: frozenset[str]) -> None:
        needed = self.fewest_centers
        if len(centers) < needed:
            raise self._refusal(
                f"the sum would be over {len(centers)} centers, and {needed} are needed"
            )

    def _current(self, number: int) -> _Round:
        if self._round is None or self._round.number != number:
            raise self._refusal(f"round {number} is not under way")
        return self._round

    def _ready(self) -> KeyRing:
        if self._ring is None or not self._shares:
            raise self._refusal("the set-up is not complete")
        return self._ring

    def _others(self, centers: Collection[str]) -> list[str]:
        return sorted(set(centers) - {self.name})

    def _read(self, parse: Callable[[bytes], _Parsed], message: bytes) -> _Parsed:
        return read(parse, message, f"A message to center '{self.name}'")

    def _signed(self, step: str, where: bytes, body: bytes) -> bytes:
        return sign(self._identity, binding(step, where, self.name), body)

    def _refusal(self, reason: str) -> SecureSumError:
        return SecureSumError(f"Center '{self.name}' refuses: {reason}.")
