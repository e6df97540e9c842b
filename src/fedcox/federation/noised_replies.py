"""How do replies leave a hospital under noise? Paid for first, then counted, then noised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedcox.federation.query import AbstractPrivateQuery
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.budget import Reservation
from fedcox.privacy.noise import Randomness, SystemRandomness, noised
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import Cohort, FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.budget import Budget


class NoisedReplies:
    """One hospital's replies under noise in one study.

    The hospital works out for itself what a kind of reply costs, at its own `delta`, and writes
    all of it to its `budget` before the first one leaves. Without a budget nothing is kept, as
    in a simulation. `randomness` is the operating system's, unless a simulation is to be
    repeated.
    """

    def __init__(
        self,
        study: str,
        delta: float,
        budget: Budget | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self._study, self._delta, self._budget = study, delta, budget
        self._randomness = SystemRandomness() if randomness is None else randomness
        self._paid: dict[GaussianRelease, Reservation] = {}
        self._last: tuple[bytes, bool, FloatArray] | None = None

    def vector(
        self, query: AbstractPrivateQuery[Any], cohort: Cohort, *, masked: bool
    ) -> FloatArray:
        """The packed reply with its noise; `masked` says that others add noise to the sum.

        The same question again, as where a round is repeated without a center that dropped,
        gets the same reply: fresh noise would tell more, and cost more.
        """
        if self._last is not None and self._last[:2] == (query.digest, masked):
            return self._last[2]
        self._reservation(query.release).use()
        summed = query.pack(query.private_answer(cohort, self._randomness))
        reply = noised(summed, query.release, self._randomness, masked=masked)
        self._last = query.digest, masked, reply
        return reply

    def epsilon(self, release: GaussianRelease) -> float:
        """What all replies of this kind cost together."""
        return epsilon_of(release, self._delta)

    def _reservation(self, release: GaussianRelease) -> Reservation:
        if release not in self._paid:
            cost = self.epsilon(release)
            releases = release.releases
            if self._budget is None:
                paid = Reservation(self._study, cost, self._delta, releases)
            else:
                paid = self._budget.reserve(
                    self._study, epsilon=cost, delta=self._delta, releases=releases
                )
            self._paid[release] = paid
        return self._paid[release]
