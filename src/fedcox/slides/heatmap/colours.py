"""What colour is a tile score? Blue below the cohort's median tile, red above it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcox.slides.tile_scores import ScoreScale
from fedcox.survival.cohort import FloatArray

Colours = NDArray[np.uint8]

#: From the lower limit to the upper one in equal steps. Blue and red stay apart for people who
#: do not see red or green, and the middle is darker than glass.
_STOPS = np.array(
    [
        (30, 60, 150),
        (58, 104, 182),
        (137, 176, 214),
        (236, 229, 207),
        (240, 170, 110),
        (212, 88, 54),
        (165, 22, 36),
    ],
    dtype=np.float64,
)

#: A tile's score is on the scale of the linear predictor, which each link reads its own way.
SCORE_NAMES = {"log": "log hazard", "cloglog": "log hazard", "logit": "log hazard odds"}


def colours_at(place: FloatArray) -> Colours:
    """(n,) from −1 to 1 → (n, 3) red, green, blue."""
    at = np.linspace(-1.0, 1.0, len(_STOPS))
    channels = [np.interp(place, at, _STOPS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def tile_colours(scores: FloatArray, scale: ScoreScale) -> Colours:
    """(tiles,) → (tiles, 3)."""
    return colours_at(scale.place(scores))
