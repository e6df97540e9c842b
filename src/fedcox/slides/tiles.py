"""Which squares of a slide are tiles: a grid in micrometres, where tissue is, drawn by a seed.

Tiles do not overlap. Their corners are whole pixels of level 0; where a tile's side is not,
neighbours share or leave out less than one of them.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedcox.slides.region import Region

# A share that equals the limit up to rounding is enough.
_ROUNDING = 1e-9


def tile_grid(
    size: tuple[int, int], mpp: float, tile_um: float, tissue: Region, min_tissue: float
) -> NDArray[np.int32]:
    """(tiles, 2): upper left corners x, y of the tiles with at least `min_tissue` of tissue.

    `size` (width, height) and `mpp` are the slide's, at level 0. Row by row from the top.
    """
    side = tile_um / mpp
    across, down = (int(np.floor(length / side + _ROUNDING)) for length in size)
    y, x = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
    grid = np.column_stack([x.ravel(), y.ravel()]) * side
    corners = np.rint(grid).astype(np.int32)
    enough = tissue.share(corners, side) >= min_tissue - _ROUNDING
    return np.asarray(corners[enough])


def draw_tiles(
    coords: NDArray[np.int32], most: int, seed: int, slide_id: str
) -> NDArray[np.int32]:
    """At most `most` tiles without replacement, in the grid's order.

    The draw follows from (seed, slide_id): other slides of the cohort do not change it.
    """
    if len(coords) <= most:
        return coords
    words = np.frombuffer(sha256(slide_id.encode()).digest(), np.uint32)
    rng = np.random.default_rng([seed, *words.tolist()])
    return coords[np.sort(rng.choice(len(coords), most, replace=False))]
