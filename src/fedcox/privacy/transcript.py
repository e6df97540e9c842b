"""Everything that was signed for one finished sum, so that each center can add it up again.

It holds what the coordinator has, and nothing from which a single center's numbers follow. Of a
sum for which a center had to be recovered there is none: what recovers it is of use beyond that
sum, and the center that vanished is in no later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedcox.privacy.ciphers import fields
from fedcox.privacy.messages import ByName, CentersOfRound, fields_in


@dataclass(frozen=True, eq=False)
class Transcript:
    """The round, the digest of its question, who was asked, and what each survivor signed."""

    round_number: int
    question: bytes
    centers: tuple[str, ...]
    vectors: Mapping[str, bytes]
    releases: Mapping[str, bytes]

    @property
    def survivors(self) -> tuple[str, ...]:
        """The centers that the sum is over."""
        return tuple(sorted(self.vectors))

    def to_bytes(self) -> bytes:
        return fields(
            CentersOfRound(self.round_number, self.centers).to_bytes(),
            self.question,
            ByName(self.vectors).to_bytes(),
            ByName(self.releases).to_bytes(),
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> Transcript:
        asked, question, vectors, releases = fields_in(body)
        of_round = CentersOfRound.from_bytes(asked)
        return cls(
            of_round.round_number,
            question,
            of_round.centers,
            ByName.from_bytes(vectors).parts,
            ByName.from_bytes(releases).parts,
        )
