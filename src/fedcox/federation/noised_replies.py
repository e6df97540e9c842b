"""How do replies leave a hospital under noise? Paid for first, then counted, then noised."""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

from fedcox.errors import BudgetError
from fedcox.federation.digest import digest
from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.noise import (
    SHARES_ROUNDING,
    GaussianRelease,
    Randomness,
    SystemRandomness,
    noised,
)
from fedcox.privacy.study_memory import LastReply, Noised, Right
from fedcox.survival.cohort import Cohort, FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.budget import Budget
    from fedcox.privacy.study_memory import StudyMemory

_NOBODY: frozenset[str] = frozenset()
#: The noise that a study asks for costs what it named, up to this part of it.
_ROUNDING = 1e-9
#: So many noised replies are remembered: no round asks for more.
_OF_ONE_ROUND = 2
#: After the first kind of replies further ones are paid for alone while all are less than this
#: part of the study; then the whole is.
_FIRST = 0.125


class NoisedReplies:
    """One hospital's replies under noise in one study.

    The hospital works out for itself what a kind of reply costs, at its own `delta`, and writes
    all of it to its `budget` before the first one leaves. Of kinds of one study that are
    accounted for together (`GaussianRelease.whole`) the first are paid for alone, since a study
    may end with them, and then the whole. Without a budget nothing is kept, as in a simulation.
    `randomness` is the operating system's, unless a simulation is to be repeated. With a
    `memory` a restarted center goes on with what it paid for. `most` is the
    epsilon that was agreed on for the study, `sums` how many noised sums, and `parts` into how
    many parts their noise is divided: whoever asks, all kinds of replies together cost and are
    no more, also where the budget would cover it. The budget has the study's `name`, too.
    """

    def __init__(
        self,
        study: str,
        delta: float,
        budget: Budget | None = None,
        randomness: Randomness | None = None,
        memory: StudyMemory | None = None,
        *,
        name: str = "",
        most: float = math.inf,
        sums: int | None = None,
        parts: int | None = None,
    ) -> None:
        self._study, self._delta, self._budget = study, delta, budget
        self._name, self._most, self._sums, self._parts = name, most, sums, parts
        self._randomness = SystemRandomness() if randomness is None else randomness
        self._memory = memory
        self._noised = Noised() if memory is None else memory.now.noised
        self._paid: dict[str, float] = {}  # epsilon by names of rights, in this process
        self._lock = RLock()  # the same question twice at once must not get two replies

    def vector(
        self,
        query: AbstractPrivateQuery[Any],
        cohort: Cohort,
        *,
        masked: bool,
        among: frozenset[str] = _NOBODY,
    ) -> FloatArray:
        """The packed reply with its noise; `masked` says that others add noise to the sum.

        The same question again in a sum over the same centers, `among` which it is masked,
        gets the same reply, as where a round is repeated after a restart: fresh noise would
        tell more, and cost more. In a sum over other centers it gets fresh noise, and costs:
        the difference of two sums with the same noise has only a part of it.
        """
        asked, release = _asked(query, masked, among), query.release
        with self._lock:
            for last in self._noised.last:
                if last.query == asked:
                    return last.reply
            right = self._right(release)
            if right.used >= release.releases:
                raise BudgetError(
                    "This study has released all the noised sums that it paid for.",
                    [
                        f"It paid for {release.releases}. A study of more steps needs a larger "
                        "epsilon or more noise, and is a new study."
                    ],
                )
            # Counted and kept, both at once, before it leaves; a reply that cannot be made is
            # counted as well, since the error alone may tell of patients.
            counted = {**self._noised.rights, release: Right(right.name, right.used + 1)}
            try:
                summed = query.pack(query.private_answer(cohort, self._randomness))
                reply = noised(summed, release, self._randomness, masked=masked)
            except Exception:
                self._keep(Noised(counted, self._noised.last))
                raise
            last_replies = (*self._noised.last, LastReply(asked, reply))[-_OF_ONE_ROUND:]
            self._keep(Noised(counted, last_replies))
            return reply

    def repeats(self, query: AbstractQuery[Any], among: frozenset[str]) -> bool:
        """Whether the reply under masks would be one of the last again."""
        asked = _asked(query, True, among)
        return any(last.query == asked for last in self._noised.last)

    def epsilon(self, release: GaussianRelease) -> float:
        """What all replies of this kind cost together."""
        return epsilon_of(release, self._delta)

    def _right(self, release: GaussianRelease) -> Right:
        """The right to these replies, paid for under its name.

        The name is on the disk before the first payment is, and further kinds of the account
        have the same. So a center that stops in between knows by it what it has paid, whenever
        that was.
        """
        rights = self._noised.rights
        right = rights.get(release)
        if right is None:
            self._check_agreed(release)
            names = {kind.account: each.name for kind, each in rights.items()}
            name = names.get(release.account)
            right = Right(secrets.token_hex(16) if name is None else name)
            if name is None:
                if self._budget is not None:
                    # Else every refused kind would leave a name behind.
                    self._budget.check(epsilon=self.epsilon(release), delta=self._delta)
                self._keep(Noised({**rights, release: right}, self._noised.last))
        if self._budget is None:
            return right
        kinds = [kind for kind in {*rights, release} if kind.account == release.account]
        share = math.fsum(kind.share for kind in kinds)
        cost = self.epsilon(release)
        first = len(kinds) == 1 or share < _FIRST
        if release.whole is not None and first and share > SHARES_ROUNDING:
            part = replace(release, whole=release.whole / math.sqrt(share))
            cost = epsilon_of(part, self._delta) or cost
        if self._paid.get(right.name, 0.0) < cost:
            self._budget.reserve(
                self._study,
                name=self._name,
                epsilon=cost,
                delta=self._delta,
                releases=self._sums or release.releases,
                right=right.name,
            )
            self._paid[right.name] = cost
        return right

    def together_with(self, release: GaussianRelease) -> float:
        """What the study spends by all kinds of replies that were asked for, and this one."""
        kinds = {*self._noised.rights, release}
        return math.fsum({kind.account: self.epsilon(kind) for kind in kinds}.values())

    def _check_agreed(self, release: GaussianRelease) -> None:
        """Refuse a kind of reply with which the study would be more than was agreed on."""
        kinds = {*self._noised.rights, release}
        together = [kind for kind in kinds if kind.account == release.account]
        sums = sum(kind.releases for kind in together)
        # What was agreed on is one account: its delta is paid once, too.
        beyond = self._sums is not None and (sums > self._sums or len(together) < len(kinds))
        beyond |= self._parts is not None and release.parts > self._parts
        beyond |= self._sums is not None and release.sampling_rate < 1.0
        if beyond or math.fsum(kind.share for kind in together) > 1.0 + SHARES_ROUNDING:
            raise BudgetError(
                "This study asks for more noised sums than its noise covers.",
                ["All kinds together spend what was agreed on; this kind is beyond it."],
            )
        if self.together_with(release) > self._most * (1.0 + _ROUNDING):
            raise BudgetError(
                "This study asks for more than the epsilon that was agreed on for it.",
                [f"It is {self._most:g} in all. A study that needs more is a new study."],
            )

    def _keep(self, noised: Noised) -> None:
        if self._memory is not None:
            self._memory.keep(noised=noised)
        self._noised = noised


def _asked(query: AbstractQuery[Any], masked: bool, among: frozenset[str]) -> bytes:
    return digest((query.digest, masked, sorted(among)))
