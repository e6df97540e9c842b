"""A hospital whose replies leave under masks: nobody sees them but as part of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.federation.claimed_groups import check_groups, check_means
from fedcox.federation.masked_numbers import encode, round_digest
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.query import (
    AbstractAdditiveQuery,
    AbstractMaximumQuery,
    AbstractPrivateQuery,
    AbstractQuery,
)
from fedcox.federation.setting import Setting, Timed
from fedcox.federation.study_check import StudyCheck, StudyPath
from fedcox.privacy.fixed_point import UIntArray

if TYPE_CHECKING:
    from fedcox.privacy.gate import Gate
    from fedcox.privacy.party import Party


@dataclass(frozen=True)
class MaskedReply:
    """One center's replies to the questions of a round, under one mask.

    `lengths` says how many integers each question's reply takes, which anyone may know.
    """

    lengths: tuple[int, ...]
    message: bytes


@dataclass(frozen=True, eq=False)
class MaskedCenter:
    """A center and its part in the secure sums of a study.

    It remembers which settings it has checked. By its gate it knows, for every set of centers,
    the grid it first answered on: later ones may join its intervals, not part them. One that
    knows the `study` answers what the study asks next, and nothing else; it then needs to be
    shown every sum.
    """

    center: Center
    party: Party
    study: StudyCheck | None = None
    _checked: WeakKeyDictionary[Setting, frozenset[str]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _path: StudyPath = field(default_factory=StudyPath, repr=False)

    @property
    def name(self) -> str:
        return self.center.name

    def reply(
        self,
        queries: Sequence[AbstractQuery[Any]],
        round_number: int,
        centers: Sequence[str],
        previous: bytes | None = None,
    ) -> MaskedReply:
        """Answer the questions of one round, masked against the other `centers` of it.

        `previous` is the transcript of the round before.
        """
        if self.center.gate is not None:
            self.center.gate.check_patience()
        self._check_study(queries, centers, previous)
        among = frozenset(centers)
        repeated = any(self._repeats(query, among) for query in queries)
        # All must be allowed before any is masked.
        parts = [self._allowed(query, among) for query in queries]
        message = self.party.masked(
            round_number,
            round_digest(query.digest for query in queries),
            np.concatenate(parts),
            centers,
            whole=repeated,
        )
        lengths = tuple(int(part.size) for part in parts)
        if self.study is not None:
            self._path.answered(queries, lengths, centers)
        return MaskedReply(lengths, message)

    def _check_study(
        self,
        queries: Sequence[AbstractQuery[Any]],
        centers: Sequence[str],
        previous: bytes | None,
    ) -> None:
        if self.study is None:
            return
        try:
            self._path.check(self.study, queries, centers, previous, self.party)
        except RefusedError as error:
            names = ", ".join(query.name for query in queries)
            raise self._refusal(names, *error.faults) from error

    def _allowed(self, query: AbstractQuery[Any], centers: frozenset[str]) -> UIntArray:
        """The integers of one reply, if limits allow it as part of a sum over `centers`."""
        gate = self.center.gate
        timing = query.setting.timing if isinstance(query.setting, Timed) else None
        if gate is None:
            return self._integers(query, centers)
        try:
            if isinstance(query, CovariateScatter) and query.present is not None:
                check_means(query, self.party, centers)
            if timing is not None:
                self._check_groups(timing, centers)
                if gate.policy.groups.one_grid:
                    _check_grid(timing, centers, gate)
        except RefusedError as error:
            raise self._refusal(query.name, *error.faults) from error
        integers = self._integers(query, centers)
        if timing is not None:
            gate.answered_on(centers, timing.grid.edges)
        return integers

    def _repeats(self, query: AbstractQuery[Any], centers: frozenset[str]) -> bool:
        """Whether noise that is in an earlier sum would be in this one too."""
        noise = self.center.noise
        if noise is None or not isinstance(query, AbstractPrivateQuery):
            return False
        return noise.repeats(query, centers)

    def _check_groups(self, setting: Setting, centers: frozenset[str]) -> None:
        """Groups over all centers, with which limits are compared, must have been counted."""
        if setting.leavers is not None and self._checked.get(setting) != centers:
            check_groups(setting, self.party, centers)
            self._checked[setting] = centers

    def _integers(self, query: AbstractQuery[Any], centers: frozenset[str]) -> UIntArray:
        if isinstance(query, AbstractMaximumQuery):
            from fedcox.privacy.secure_maximum import markers

            reach = self.center.answer(query, masked=True, among=centers)
            return markers(reach, query.cells)
        if isinstance(query, AbstractPrivateQuery):
            self._check_noise(query)
        if isinstance(query, AbstractAdditiveQuery):
            packed = query.pack(self.center.answer(query, masked=True, among=centers))
            return encode(query, packed, len(centers))
        raise self._refusal(
            query.name,
            "The replies to it do not add up, so they cannot be masked. Ask for a sum.",
        )

    def _check_noise(self, query: AbstractPrivateQuery[Any]) -> None:
        """Parts of the noise must be enough in the smallest sum that this center is part of."""
        claimed = query.release.fewest_centers
        if claimed is None or claimed <= self.party.fewest_centers:
            return
        raise self._refusal(
            query.name,
            f"Its noise would be divided by {claimed}, and a sum may be over as few as "
            f"{self.party.fewest_centers} centers: then it would not be enough.",
        )

    def _refusal(self, question: str, *faults: str) -> RefusedError:
        """The refusal, which counts as one where there are limits."""
        if self.center.gate is not None:
            self.center.gate.refuse()
        told = f"Center '{self.name}' refuses the question '{question}'."
        return RefusedError(told, faults)


def smallest_sum(center: Center) -> int:
    """The fewest centers among which this one hides, by its own policy."""
    return 3 if center.gate is None else max(3, center.gate.policy.protection.centers)


def _check_grid(setting: Setting, centers: frozenset[str], gate: Gate) -> None:
    """Intervals joined in two ways may be large both times, and differ by one patient."""
    first = gate.first_grid(centers)
    edges = setting.grid.edges
    moved = 0 if first is None else int(np.count_nonzero(~np.isin(edges, first)))
    if moved:
        raise RefusedError(
            "Another grid was agreed on.",
            [
                f"[groups] one_grid: {moved} intervals end elsewhere than those that these "
                "centers answered on before. Differences between grids may be single "
                "patients."
            ],
        )
