"""The longest follow-up of all centers, without showing any center's own.

Over a public grid of cells each center puts a fresh random number that is not zero into every
cell up to that of its own maximum, and zero above. In the sum mod 2^64 a cell is zero where no
center reaches it; elsewhere it is uniform, whether one center reaches it or all of them do. So
the sum shows the highest cell that any center reaches and nothing else. Markers of two or more
centers cancel with probability 2^-64 in a cell; the answer would then be a cell too low.
"""

from __future__ import annotations

import secrets

import numpy as np

from fedcox.privacy.fixed_point import UIntArray


def markers(cells_reached: int, cells: int) -> UIntArray:
    """A center's vector: uniform non-zero numbers in its first cells, zero in the others."""
    if not 0 <= cells_reached <= cells:
        raise ValueError(f"{cells_reached} cells of a grid of {cells} cannot be reached.")
    marked = np.zeros(cells, dtype=np.uint64)
    while (empty := np.flatnonzero(marked[:cells_reached] == 0)).size:
        drawn = secrets.token_bytes(8 * empty.size)
        marked[empty] = np.frombuffer(drawn, dtype=np.uint64)
    return marked


def highest(total: UIntArray) -> int | None:
    """The highest cell, counted from zero, that any center reaches; None if none does."""
    reached = np.flatnonzero(total)
    return int(reached[-1]) if reached.size else None
