"""A hospital whose answers leave under masks: nobody sees them but as part of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.federation.center import Center
from fedcox.federation.query import (
    AbstractAdditiveQuery,
    AbstractMaximumQuery,
    AbstractPrivateQuery,
    AbstractQuery,
)
from fedcox.privacy import fixed_point
from fedcox.privacy.fixed_point import LIMBS, UIntArray, decode_limbs, encode_limbs
from fedcox.survival.cohort import FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.secure_sum_center import SecureSumCenter


@dataclass(frozen=True)
class MaskedReply:
    """One center's replies to the questions of a round, under one mask.

    `lengths` says how many integers each question's reply takes, and `epsilons` what each
    study spends for the ledger; anyone may know both.
    """

    lengths: tuple[int, ...]
    message: bytes
    epsilons: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class MaskedCenter:
    """A center and its part in the secure sums of a study."""

    center: Center
    sums: SecureSumCenter

    @property
    def name(self) -> str:
        return self.center.name

    def reply(
        self,
        queries: Sequence[AbstractQuery[Any]],
        round_number: int,
        centers: Sequence[str],
        shares: bytes,
    ) -> MaskedReply:
        """Answer the questions of one round, masked against the other `centers` of it.

        `shares` are those of the other centers, in the first round after a set-up.
        """
        if shares:
            self.sums.accept(shares)
        among, noise = frozenset(centers), self.center.noise
        repeated = noise is not None and any(noise.repeats(query, among) for query in queries)
        # All must be allowed before any is masked.
        parts = [self._integers(query, among) for query in queries]
        asked = b"".join([query.digest for query in queries])
        vector = np.concatenate(parts)
        message = self.sums.masked(round_number, asked, vector, centers, whole=repeated)
        lengths = tuple(part.size for part in parts)
        return MaskedReply(lengths, message, tuple(map(self.center.epsilon, queries)))

    def _integers(self, query: AbstractQuery[Any], among: frozenset[str]) -> UIntArray:
        center, fewest = self.center, self.sums.fewest_centers
        if isinstance(query, AbstractMaximumQuery):
            from fedcox.privacy.fixed_point import markers

            return markers(center.answer(query, masked=True, among=among), query.cells)
        if not isinstance(query, AbstractAdditiveQuery):
            raise center.refusal(
                query,
                "The replies to it do not add up, so they cannot be masked. Ask for a sum.",
            )
        parts = query.release.parts if isinstance(query, AbstractPrivateQuery) else 1
        if parts > fewest:
            # Parts of the noise must be enough in the smallest sum with this center in it.
            raise center.refusal(
                query,
                f"Its noise would be divided by {parts}, and a sum may be over as few as "
                f"{fewest} centers: then it would not be enough.",
            )
        return integers_of(
            query, query.pack(center.answer(query, masked=True, among=among)), len(among)
        )


def smallest_sum(center: Center) -> int:
    """The fewest centers among which this one hides, by its own policy."""
    return 3 if center.gate is None else center.gate.policy.centers


def integers_of(
    query: AbstractAdditiveQuery[Any], packed: FloatArray, centers: int
) -> UIntArray:
    """A packed reply in fixed point, its numbers that must keep every digit first."""
    fine = packed.size if query.fine is None else query.fine
    rest = fixed_point.encode(packed[fine:], query.bits, centers)
    return np.concatenate([encode_limbs(packed[:fine], centers), rest]) if fine else rest


def total_answer(query: AbstractQuery[Any], total: UIntArray) -> Any:
    """The combined reply that a sum of integers stands for."""
    if isinstance(query, AbstractMaximumQuery):
        from fedcox.privacy.fixed_point import highest

        cell = highest(total)
        return 0 if cell is None else 1 + cell
    if not isinstance(query, AbstractAdditiveQuery):
        raise TypeError(f"Replies to '{query.name}' do not add up.")
    fine = total.size if query.fine is None else LIMBS * query.fine
    rest = fixed_point.decode(total[fine:], query.bits)
    return query.unpack(np.concatenate([decode_limbs(total[:fine]), rest]) if fine else rest)
