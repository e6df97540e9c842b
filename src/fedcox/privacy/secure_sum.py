"""The sum over centers, and nothing else, for a coordinator that routes their messages.

After Bonawitz et al. (2017), "Practical secure aggregation for privacy-preserving machine
learning", for few centers that stay for many rounds. A set-up once, then for each sum one
vector and one short release from every center. Who may learn what:

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

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import fit_to_agree
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import PublicIdentity
from fedcox.privacy.key_ring import master_digest
from fedcox.privacy.masks import released_context, round_seed
from fedcox.privacy.messages import ByName, CentersOfRound, Recovery, Release, read
from fedcox.privacy.session import (
    Session,
    checked_identities,
    checked_smallest_sum,
    read_announcement,
    read_session,
)
from fedcox.privacy.shamir import join
from fedcox.privacy.transcript import Transcript
from fedcox.privacy.transport import Transport
from fedcox.privacy.unmasking import (
    SumRound,
    opened_seeds,
    read_releases,
    read_round,
    signed_body,
    unmasked,
)

Collect = Callable[[int, tuple[str, ...]], Mapping[str, bytes]]
#: Raises a SecureSumError where what the named center sent cannot be used.
Check = Callable[[str, bytes], object]


@dataclass(frozen=True, eq=False)
class SumResult:
    """The sum mod 2^64, the centers it is over, and those that dropped on the way.

    By the transcript every center can see that this is the sum. There is none where a center
    vanished between its vector and its release.
    """

    total: UIntArray
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]
    transcript: Transcript | None = None


class SecureSum:
    """The coordinator of one study's secure sums.

    It routes messages and adds; the parties rely on nothing it says.
    """

    def __init__(
        self,
        study: str,
        known: Mapping[str, PublicIdentity],
        transport: Transport,
        *,
        smallest_sum: int = 3,
    ) -> None:
        self._study = study
        self._known = checked_identities(known)
        self._transport = transport
        self._smallest_sum = checked_smallest_sum(smallest_sum)
        self._session: Session | None = None
        self._centers: tuple[str, ...] = ()
        self._rounds = 0
        self._expected: Check = _nothing_expected

    @property
    def centers(self) -> tuple[str, ...]:
        """Those that take part in the next sum."""
        return self._centers

    def check(self, name: str, message: bytes) -> None:
        """Raise where a center's reply to what is asked just now cannot be verified or read.

        A transport may ask for each reply as it comes, and take a center whose reply cannot be
        used for one that dropped. What it does hand on is verified in any case, and there the
        same fault ends the sum.
        """
        self._expected(name, message)

    def set_up(self) -> None:
        """Exchange keys and shares; centers that do not answer are left out."""
        self._session, self._centers = None, ()
        names = tuple(sorted(self._known))
        while True:
            announced = self._exchange("keys", dict.fromkeys(names, b""), self._check_keys)
            session = read_session(self._study, self._known, announced)
            self._check_number(session, session.members)
            boxes = self._boxes(session, announced)
            if len(boxes) == len(session.members):
                break
            names = tuple(boxes)  # without the shares of all of them no center goes on
        centers = self._delivered(session, boxes)
        self._check_number(session, centers)
        self._session, self._centers = session, centers

    def sum(self, question: bytes, collect: Collect) -> SumResult:
        """The sum of the centers' vectors.

        `question` is the digest of what is asked. `collect` puts the question to the named
        centers as the round of the given number and returns what `Party.masked` replied, of
        those that answered in time. It is called again, under a new number, where centers
        dropped both before and after they sent: such a round cannot be completed.
        """
        before = self._centers
        while True:
            current, vectors = self._vectors(question, collect)
            releases = self._releases(current)
            released = read_releases(self._ready(), current, releases)
            vanished = sorted(set(current.survivors) - set(released))
            self._centers = tuple(sorted(released))
            if not vanished:
                seeds = opened_seeds(released, current.survivors, {})
                break
            if not current.dropped:
                seeds = self._recovered_seeds(current, released)
                break
        total = unmasked(current, released, seeds)
        dropped = tuple(sorted(set(before) - set(current.survivors)))
        transcript = None
        if not vanished:
            asked = current.number, question, current.centers
            transcript = Transcript(*asked, vectors, releases)
        return SumResult(total, current.survivors, dropped, transcript)

    def _boxes(
        self, session: Session, announced: Mapping[str, bytes]
    ) -> dict[str, Mapping[str, bytes]]:
        messages = dict.fromkeys(session.members, ByName(announced).to_bytes())
        read_boxes = partial(_read_boxes, session)
        replies = self._exchange("shares", messages, read_boxes)
        return {name: read_boxes(name, reply) for name, reply in replies.items()}

    def _delivered(
        self, session: Session, boxes: Mapping[str, Mapping[str, bytes]]
    ) -> tuple[str, ...]:
        delivered = {
            name: ByName({sender: box[name] for sender, box in boxes.items() if sender != name})
            for name in session.members
        }
        messages = {name: parts.to_bytes() for name, parts in delivered.items()}
        check = partial(signed_body, session, "delivery", session.digest)
        replies = self._exchange("delivery", messages, check)
        for name, reply in replies.items():
            check(name, reply)
        return tuple(sorted(replies))

    def _vectors(self, question: bytes, collect: Collect) -> tuple[SumRound, dict[str, bytes]]:
        """The round, and its vectors as the centers signed them."""
        session = self._ready()
        self._check_number(session, self._centers)
        self._rounds += 1
        number, centers = self._rounds, self._centers
        read_vectors = partial(read_round, session, number, question, centers)
        self._expected = lambda name, message: read_vectors({name: message})
        replies = collect(number, centers)
        self._expected = _nothing_expected
        masked = {name: replies[name] for name in centers if name in replies}
        current = read_vectors(masked)
        self._check_number(session, current.survivors)
        return current, masked

    def _releases(self, current: SumRound) -> dict[str, bytes]:
        message = CentersOfRound(current.number, current.survivors).to_bytes()
        session = self._ready()
        return self._exchange(
            "release",
            dict.fromkeys(current.survivors, message),
            lambda name, reply: read_releases(session, current, {name: reply}),
        )

    def _recovered_seeds(
        self, current: SumRound, released: Mapping[str, Release]
    ) -> dict[str, bytes]:
        """Seeds where some vanished between their vector and their release."""
        recoveries = self._recover(current, set(released))
        vanished = sorted(set(current.survivors) - set(recoveries))
        self._centers = tuple(sorted(recoveries))
        seeds = opened_seeds(
            {name: released[name] for name in recoveries},
            current.survivors,
            {name: recovery.openings for name, recovery in recoveries.items()},
        )
        for place, name in enumerate(vanished):
            shares = {sender: given.shares[place] for sender, given in recoveries.items()}
            seeds[name] = round_seed(self._master(name, shares), current.context)
        return seeds

    def _recover(self, current: SumRound, present: set[str]) -> dict[str, Recovery]:
        """Ask those present until all of them answer: each is needed for its own seed."""
        while True:
            self._check_present(current, present)
            message = CentersOfRound(current.number, tuple(present)).to_bytes()
            read_recovery = partial(_read_recovery, self._ready(), current, frozenset(present))
            replies = self._exchange("recovery", dict.fromkeys(present, message), read_recovery)
            if set(replies) == present:
                return {name: read_recovery(name, reply) for name, reply in replies.items()}
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

    def _check_keys(self, name: str, reply: bytes) -> None:
        announced = read_announcement(self._study, self._known, name, reply)
        # Every other center would refuse such a key, and all of them be lost for this one.
        if not (fit_to_agree(announced.pair_key) and fit_to_agree(announced.share_key)):
            raise SecureSumError(f"A public key of center '{name}' cannot be used.")

    def _exchange(
        self, step: str, messages: Mapping[str, bytes], expected: Check
    ) -> dict[str, bytes]:
        """The replies of those that were asked; whoever else speaks is not heard."""
        self._expected = expected
        replies = self._transport.exchange(step, messages)
        self._expected = _nothing_expected
        return {name: replies[name] for name in messages if name in replies}

    def _check_number(self, session: Session, centers: Collection[str]) -> None:
        needed = max(session.threshold, self._smallest_sum)
        if len(centers) < needed:
            raise SecureSumError(
                f"Too few centers for a secure sum: {len(centers)} of {len(session.members)} "
                f"are there, and {needed} are needed. No part of the sum is used."
            )

    def _check_present(self, current: SumRound, present: Collection[str]) -> None:
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
    body = signed_body(session, "shares", session.digest, name, reply)
    boxes = read(ByName.from_bytes, body, _what(name)).parts
    if set(boxes) != set(session.members) - {name}:
        raise SecureSumError(f"Center '{name}' did not give every other one a share.")
    return boxes


def _read_recovery(
    session: Session, current: SumRound, present: frozenset[str], name: str, reply: bytes
) -> Recovery:
    where = released_context(current.released, present)
    body = signed_body(session, "recovery", where, name, reply)
    parse = partial(Recovery.from_bytes, vanished=len(current.survivors) - len(present))
    return read(parse, body, _what(name))


def _what(name: str) -> str:
    return f"A message of center '{name}'"
