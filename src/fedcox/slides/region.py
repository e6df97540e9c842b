"""Which part of a slide is meant, such as its tissue, and how much of a square lies in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Region:
    """A coarse picture of a slide, true where it is in the region.

    `pixels` is (height, width); pixel (row, column) covers the square of `downsample` level-0
    pixels that begins at (column, row) times `downsample`. Beyond the picture is outside.
    """

    pixels: NDArray[np.bool_]
    downsample: float

    def share(self, corners: NDArray[np.int32], side: float) -> FloatArray:
        """(n,), from 0 to 1: how much of each square lies in the region.

        `corners` (n, 2) are upper left, x and y; `side` is a square's, all in level-0 pixels.
        """
        height, width = self.pixels.shape
        # Summed up to each corner of a pixel. In between the sum is bilinear, since a pixel is
        # all in or all out: a square that cuts pixels is measured exactly.
        summed = np.zeros((height + 1, width + 1))
        summed[1:, 1:] = self.pixels.cumsum(0, dtype=np.float64).cumsum(1)
        left, top = (corners / self.downsample).T
        length = side / self.downsample
        right, bottom = left + length, top + length
        inside = (
            _at(summed, right, bottom)
            - _at(summed, left, bottom)
            - _at(summed, right, top)
            + _at(summed, left, top)
        )
        return np.clip(inside / length**2, 0.0, 1.0)


def _at(summed: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Between the entries, bilinear."""
    height, width = summed.shape
    x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    column = np.minimum(x.astype(np.intp), max(width - 2, 0))
    row = np.minimum(y.astype(np.intp), max(height - 2, 0))
    across, down = x - column, y - row
    upper = summed[row, column] * (1 - across) + summed[row, column + 1] * across
    lower = summed[row + 1, column] * (1 - across) + summed[row + 1, column + 1] * across
    return np.asarray(upper * (1 - down) + lower * down)
