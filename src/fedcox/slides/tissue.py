"""Where on a slide there is tissue, and how much of a square lies in it.

Stained tissue is coloured and glass is not: Otsu's threshold of the saturation tells them
apart. Pen marks are coloured too and count as tissue; blurred regions and folds are not told
from the rest. A slide that is tissue from edge to edge has no glass to be told from: Otsu's
threshold then divides pale tissue from dark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from fedcox.errors import InputError, from_extra
from fedcox.slides.slide import Pixels
from fedcox.survival.cohort import FloatArray

Mask: TypeAlias = NDArray[np.bool_]
"""(height, width), true where there is tissue."""

# Glass with the noise of JPEG stays below; the palest stains are above.
_LEAST_SATURATION = 14
# The scanner's black border: the saturation of so dark a pixel is noise.
_BLACK = 25
_MEDIAN = 5


class AbstractTissueFinder(ABC):
    """A way to find tissue in a picture of a whole slide."""

    #: Micrometres per pixel of the picture that it needs.
    mpp: float

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str | float]:
        """What the mask depends on."""

    @abstractmethod
    def find(self, rgb: Pixels) -> Mask:
        """(height, width) of a picture (height, width, 3)."""


@dataclass(frozen=True)
class OtsuTissue(AbstractTissueFinder):
    """True where the saturation, after a small median, is above Otsu's threshold.

    Of a picture without any colour nothing is true.
    """

    mpp: float = 8.0

    @property
    def settings(self) -> Mapping[str, str | float]:
        return {"method": "otsu", "mask_mpp": self.mpp}

    def find(self, rgb: Pixels) -> Mask:
        smooth = ndimage.median_filter(saturation(rgb), size=_MEDIAN, mode="nearest")
        return np.asarray(smooth > max(otsu_threshold(smooth), _LEAST_SATURATION))


def saturation(rgb: Pixels) -> NDArray[np.uint8]:
    """Of HSV, from 0 to 255; 0 for what is nearly black."""
    most = rgb.max(axis=2).astype(np.int32)
    least = rgb.min(axis=2)
    share = (255 * (most - least)) // np.maximum(most, 1)
    return np.where(most < _BLACK, 0, share).astype(np.uint8)


def otsu_threshold(values: NDArray[np.uint8]) -> int:
    """The largest value of the lower class, where the classes' means differ most.

    Maximises the variance between the classes (Otsu 1979).
    """
    count = np.bincount(values.ravel(), minlength=256).astype(np.float64)
    level = np.arange(256)
    below = count.cumsum()
    above = below[-1] - below
    summed = (count * level).cumsum()
    both = (below > 0) & (above > 0)
    if not both.any():
        return 255  # one value only
    gap = np.zeros(256)
    gap[both] = summed[both] / below[both] - (summed[-1] - summed[both]) / above[both]
    return int(np.argmax(below * above * gap**2))


def without_specks_and_holes(mask: Mask, mpp: float, speck_um2: float, hole_um2: float) -> Mask:
    """Holes smaller than `hole_um2` are filled, then pieces smaller than `speck_um2` dropped.

    `mpp` is that of the mask. Pieces touch at corners too, holes at edges only.
    """
    cross = ndimage.generate_binary_structure(2, 1)
    filled = mask | _small(~mask, hole_um2 / mpp**2, cross, border=False)
    return filled & ~_small(filled, speck_um2 / mpp**2, np.ones((3, 3), bool), border=True)


def _small(mask: Mask, pixels: float, touching: Mask, *, border: bool) -> Mask:
    """The pieces of fewer pixels; those at the picture's border only where `border`."""
    label, pieces = ndimage.label(mask, touching)
    small = np.bincount(label.ravel(), minlength=pieces + 1) < pixels
    small[0] = False
    if not border:
        # Glass that reaches the edge is no hole, however little of it there is.
        for edge in (label[0], label[-1], label[:, 0], label[:, -1]):
            small[edge] = False
    return np.asarray(small[label])


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


def chosen_finder(unet: Path | None, mask_um: float | None) -> AbstractTissueFinder:
    """The U-Net in this file, or else Otsu's at `mask_um` micrometres per pixel."""
    if unet is None:
        return OtsuTissue() if mask_um is None else OtsuTissue(mask_um)
    if mask_um is not None:
        raise InputError(
            "--mask-um would change nothing: a U-Net has the resolution it was trained at.",
            ["Leave out --mask-um, or train a U-Net at that resolution."],
        )
    with from_extra("torch", "slides"):
        from fedcox.slides.unet import read_unet
    return read_unet(unet)
