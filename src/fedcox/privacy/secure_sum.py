"""The sum over centers, and nothing else, for a coordinator that routes their messages.

After Bonawitz et al. (2017), "Practical secure aggregation for privacy-preserving machine
learning", for few centers that stay for many rounds. Keys and shares once, then for each sum
one vector and one short release from every center. Who may learn what:

- The coordinator sees the sum over the centers that answered, at least `smallest_sum` of them,
  even if it is helped by any number of centers below the threshold, as long as it follows the
  protocol: of the centers that do not help it, only their sum.
- A coordinator that cheats – different questions, different lists of centers, held-back
  messages – gets no other sum, as long as no center helps it. Seeds are closed so that they
  open only if every center of the released set released that same set.
- A center whose vector comes too late is not unmasked by it.
- Sums over different sets of centers can be subtracted from one another. A center that was
  left out of a sum or of a set-up stays out, of later set-ups too, and more than half of the
  study's centers are in every sum. So there are few such sets; there can be some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TypeVar

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import fit_to_agree, join, xor
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import PublicIdentity
from fedcox.privacy.masks import (
    CHECK,
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
    signed,
    vector_in,
)
from fedcox.privacy.session import (
    Session,
    checked_identities,
    checked_smallest_sum,
    master_digest,
    read_announcement,
    read_session,
)

#: One step of the protocol: gives each center its message for `SecureSumCenter.handle`; the
#: replies that came in time. A center that is missing has dropped, and a refusal is raised.
Exchange = Callable[[str, Mapping[str, bytes]], Mapping[str, bytes]]
#: Puts the question to each center, as the round of this number, with the shares for it.
Collect = Callable[[int, Mapping[str, bytes]], Mapping[str, bytes]]
#: Raises a SecureSumError where what the named center sent cannot be used.
Check = Callable[[str, bytes], object]

_Message = TypeVar("_Message")


@dataclass(frozen=True, eq=False)
class SumResult:
    """The sum mod 2^64, the centers it is over, and those that dropped on the way."""

    total: UIntArray
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Round:
    """The vectors that came, of the centers that were asked."""

    number: int
    context: bytes
    vectors: Mapping[str, UIntArray]
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]
    released: bytes


class SecureSum:
    """The coordinator of one study's secure sums.

    It routes messages and adds; the centers rely on nothing it says.
    """

    def __init__(
        self,
        study: str,
        known: Mapping[str, PublicIdentity],
        exchange: Exchange,
        *,
        smallest_sum: int = 3,
    ) -> None:
        self._study = study
        self._known = checked_identities(known)
        self._exchange = exchange
        self._smallest_sum = checked_smallest_sum(smallest_sum)
        self._session: Session | None = None
        #: Those that take part in the next sum.
        self.centers: tuple[str, ...] = ()
        #: How many bytes each center has sent; whoever reads it may set it back.
        self.sent: Counter[str] = Counter()
        self._rounds = 0
        self._shares: dict[str, bytes] = {}  # by receiver, until it has them
        self._expected: Check = _nothing_expected

    def check(self, name: str, message: bytes) -> None:
        """Raise where a center's reply to what is asked just now cannot be verified or read.

        `exchange` may ask for each reply as it comes, and take a center whose reply cannot be
        used for one that dropped. What it does hand on is verified in any case, and there the
        same fault ends the sum.
        """
        self._expected(name, message)

    def set_up(self) -> None:
        """Exchange keys and make shares; centers that do not answer are left out.

        The shares reach the other centers with the first question.
        """
        self._session, self.centers = None, ()
        names = tuple(sorted(self._known))
        while True:
            announced = self._step("keys", dict.fromkeys(names, b""), self._announced)
            session = read_session(self._study, self._known, announced)
            self._check_number(session, session.members)
            boxes = self._boxes(session, announced)
            if len(boxes) == len(session.members):
                break
            names = tuple(boxes)  # without the shares of all of them no center goes on
        self._session, self.centers = session, session.members
        self._shares = {
            name: ByName(
                {sender: box[name] for sender, box in boxes.items() if sender != name}
            ).to_bytes()
            for name in session.members
        }

    def sum(self, query: bytes, collect: Collect) -> SumResult:
        """The sum of the centers' vectors.

        `query` is a fingerprint of what is asked. `collect` puts the query to the named
        centers as the round of the given number, after what `SecureSumCenter.accept` is given,
        and returns what `SecureSumCenter.masked` replied, of those that answered in time. It is
        called again, under a new number, where centers dropped both before and after they sent:
        such a round cannot be completed.
        """
        before = self.centers
        while True:
            current = self._collected(query, collect)
            message = CentersOfRound(current.number, current.survivors).to_bytes()
            parse = partial(
                Release.from_bytes,
                openings=len(current.survivors) - 1,
                pair_mask_keys=len(current.dropped),
            )
            identities = self._ready().identities
            released = self._step(
                "release",
                dict.fromkeys(current.survivors, message),
                partial(signed, identities, "release", current.released, parse),
            )
            self.centers = tuple(sorted(released))
            if len(released) == len(current.survivors):
                seeds = _opened_seeds(released, current.survivors, {})
                break
            if not current.dropped:
                seeds = self._recovered_seeds(current, released)
                break
        dropped = tuple(sorted(set(before) - set(current.survivors)))
        return SumResult(_unmasked(current, released, seeds), current.survivors, dropped)

    def _boxes(
        self, session: Session, announced: Mapping[str, bytes]
    ) -> dict[str, Mapping[str, bytes]]:
        messages = dict.fromkeys(session.members, ByName(announced).to_bytes())
        return self._step("shares", messages, partial(_read_boxes, session))

    def _collected(self, query: bytes, collect: Collect) -> _Round:
        """Ask for the vectors of a round, and verify those that come."""
        session, centers = self._ready(), self.centers
        self._check_number(session, centers)
        self._rounds += 1
        context = round_context(session.study, session.digest, self._rounds, query, centers)
        read_one = partial(signed, session.identities, "vector", context, vector_in)
        asked = {name: self._shares.get(name, b"") for name in centers}
        vectors = self._heard(centers, partial(collect, self._rounds, asked), read_one)
        if len({vector.size for vector in vectors.values()}) > 1:
            raise SecureSumError(
                "The centers sent vectors of different lengths: "
                + ", ".join(f"{name} {vector.size - 1}" for name, vector in vectors.items())
            )
        self._check_number(session, vectors)
        self._shares = {}
        survivors = tuple(sorted(vectors))
        dropped = tuple(sorted(set(centers) - set(vectors)))
        released = released_context(context, survivors)
        return _Round(self._rounds, context, vectors, survivors, dropped, released)

    def _recovered_seeds(
        self, current: _Round, released: Mapping[str, Release]
    ) -> dict[str, bytes]:
        """Seeds where some vanished between their vector and their release."""
        recoveries = self._recover(current, set(released))
        vanished = sorted(set(current.survivors) - set(recoveries))
        self.centers = tuple(sorted(recoveries))
        seeds = _opened_seeds(
            {name: released[name] for name in recoveries},
            current.survivors,
            {name: recovery.openings for name, recovery in recoveries.items()},
        )
        for place, name in enumerate(vanished):
            shares = {sender: given.shares[place] for sender, given in recoveries.items()}
            seeds[name] = round_seed(self._master(name, shares), current.context)
        return seeds

    def _recover(self, current: _Round, present: set[str]) -> dict[str, Recovery]:
        """Ask those present until all of them answer: each is needed for its own seed."""
        while True:
            self._check_present(current, present)
            message = CentersOfRound(current.number, tuple(present)).to_bytes()
            where = released_context(current.released, present)
            vanished = len(current.survivors) - len(present)
            parse = partial(Recovery.from_bytes, vanished=vanished)
            read_one = partial(signed, self._ready().identities, "recovery", where, parse)
            replies = self._step("recovery", dict.fromkeys(present, message), read_one)
            if set(replies) == present:
                return replies
            present = set(replies)

    def _master(self, name: str, shares: Mapping[str, bytes]) -> bytes:
        session = self._ready()
        master = join({session.place(sender): share for sender, share in shares.items()})
        if master_digest(master) != session.announcements[name].master_digest:
            raise SecureSumError(
                f"The shares of center '{name}' do not give its secret: one of "
                f"{', '.join(sorted(shares))} holds or sent an altered one."
            )
        return master

    def _announced(self, name: str, reply: bytes) -> bytes:
        """A center's signed keys, which go to the others as they are."""
        announced = read_announcement(self._study, self._known, name, reply)
        # Every other center would refuse such a key, and all of them be lost for this one.
        if not (fit_to_agree(announced.pair_key) and fit_to_agree(announced.share_key)):
            raise SecureSumError(f"A public key of center '{name}' cannot be used.")
        return reply

    def _step(
        self,
        step: str,
        messages: Mapping[str, bytes],
        read_one: Callable[[str, bytes], _Message],
    ) -> dict[str, _Message]:
        """One step of the protocol: what the centers reply to their messages."""
        return self._heard(messages, partial(self._exchange, step, messages), read_one)

    def _heard(
        self,
        asked: Collection[str],
        ask: Callable[[], Mapping[str, bytes]],
        read_one: Callable[[str, bytes], _Message],
    ) -> dict[str, _Message]:
        """What those that were asked reply; whoever else speaks is not heard."""
        self._expected = read_one
        replies = ask()
        self._expected = _nothing_expected
        self.sent.update({name: len(reply) for name, reply in replies.items()})
        return {name: read_one(name, replies[name]) for name in asked if name in replies}

    def _check_number(self, session: Session, centers: Collection[str]) -> None:
        needed = max(session.threshold, self._smallest_sum)
        if len(centers) < needed:
            raise SecureSumError(
                f"Too few centers for a secure sum: {len(centers)} of {len(session.members)} "
                f"are there, and {needed} are needed. No part of the sum is used."
            )

    def _check_present(self, current: _Round, present: Collection[str]) -> None:
        needed = self._ready().threshold
        if len(present) < needed:
            raise SecureSumError(
                f"Too few centers to complete a secure sum: {len(present)} are left of the "
                f"{len(current.survivors)} that sent a vector, and {needed} are needed. No "
                "part of the sum is used."
            )

    def _ready(self) -> Session:
        if self._session is None:
            raise SecureSumError("Secure sums need a set-up before the first one.")
        return self._session


def _nothing_expected(name: str, _: bytes) -> None:
    raise SecureSumError(f"Center '{name}' was asked nothing.")


def _read_boxes(session: Session, name: str, reply: bytes) -> Mapping[str, bytes]:
    where = session.digest
    boxes = signed(session.identities, "shares", where, ByName.from_bytes, name, reply).parts
    if set(boxes) != set(session.members) - {name}:
        raise SecureSumError(f"Center '{name}' did not give every other one a share.")
    return boxes


def _opened_seeds(
    released: Mapping[str, Release],
    survivors: tuple[str, ...],
    recovered: Mapping[str, tuple[bytes, ...]],
) -> dict[str, bytes]:
    """Open the seeds of centers that released, by what each other survivor gave for them.

    `recovered` holds, by owner, the openings that centers now gone would have given.
    """
    openings = {name: list(recovered.get(name, ())) for name in released}
    for giver, release in released.items():
        others = (name for name in survivors if name != giver)
        for owner, given in zip(others, release.openings, strict=True):
            if owner in openings:
                openings[owner].append(given)
    return {name: xor(released[name].closed_seed, *openings[name]) for name in released}


def _unmasked(
    current: _Round, released: Mapping[str, Release], seeds: Mapping[str, bytes]
) -> UIntArray:
    """Take every mask off the sum of the vectors, and see by the check number that all are."""
    pairs = [
        (name < other, key)
        for name, release in released.items()
        for other, key in zip(current.dropped, release.pair_mask_keys, strict=True)
    ]
    total = with_masks(
        reduce(np.add, current.vectors.values()),
        added=[key for first, key in pairs if not first],
        subtracted=[
            *(self_mask_key(seed) for seed in seeds.values()),
            *(key for first, key in pairs if first),
        ],
    )
    if total[-1] != CHECK * np.uint64(len(current.vectors)):
        raise SecureSumError(
            f"The masks of round {current.number} do not vanish in the sum: a center used "
            "other keys than it announced. No part of the sum is used."
        )
    return total[:-1]
