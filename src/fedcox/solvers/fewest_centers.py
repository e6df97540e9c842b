"""How few centers may a sum under masks have? By this noise is made large enough."""

from __future__ import annotations

from fedcox.federation.query import Federation


def fewest_centers(federation: Federation) -> int | None:
    """The fewest that a sum under masks can have; None where every reply is seen."""
    return None if federation.shows_centers else fewest_of(len(federation.names))


def fewest_of(centers: int, needed: int = 0) -> int:
    """The same of so many centers under masks, of which a sum needs so many in any case."""
    return max(3, centers // 2 + 1, needed)
