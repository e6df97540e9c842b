"""Which tile of a slide speaks for a high risk? The exact score of every tile.

The slide model scores each tile and averages: the mean of the tile scores *is* the slide's
score, so a map of them explains it without remainder. Higher is worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SlideError
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.link import LINKS

#: Shares of the training cohort's tile scores that lie below and above the colours' limits.
_TAIL = 0.01
#: How far a mean in this precision may lie from the exact one, in parts of the largest score.
_ROUNDING = {"float64": 1e-10, "float32": 1e-4}
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


@dataclass(frozen=True, eq=False)
class ScoredTiles:
    """The tiles of one slide: where they lie, what they score, whether they entered its score.

    `corners` (tiles, 2) are upper left corners and `side` is a length, in pixels of the
    slide's finest level. `tissue_tiles` counts the tiles with tissue, drawn or not, where the
    file of features says so.
    """

    slide_id: str
    corners: FloatArray
    side: float
    scores: FloatArray
    entered: BoolArray
    tissue_tiles: int | None = None

    @property
    def slide_score(self) -> float:
        """The mean over the tiles that entered it."""
        return float(self.scores[self.entered].mean())

    def first(self, count: int, *, highest: bool) -> list[int]:
        """Places of the tiles of the highest or lowest scores, the extreme one first."""
        order = np.argsort(-self.scores if highest else self.scores, kind="stable")
        return [int(place) for place in order[:count]]


@dataclass(frozen=True)
class ScoreScale:
    """Where the colours of tile scores are centred and end; the same for every slide.

    `centre` is the median tile score of the training cohort; the limits lie `reach` below and
    above it, so that 1 % of the tiles are beyond one of them.
    """

    centre: float
    reach: float

    @classmethod
    def of(cls, scores: Iterable[FloatArray]) -> ScoreScale:
        """The scale of these tiles, one array for each slide."""
        low, centre, high = np.quantile(
            np.concatenate([*scores]), [_TAIL, 0.5, 1 - _TAIL]
        ).tolist()
        # Tiles that all score alike are all at the centre; a scale needs some length.
        return cls(centre, max(high - centre, centre - low) or 1.0)

    @property
    def low(self) -> float:
        return self.centre - self.reach

    @property
    def high(self) -> float:
        return self.centre + self.reach

    def place(self, scores: FloatArray) -> FloatArray:
        """From −1 at the lower limit through 0 at the centre to 1; beyond the limits, cut."""
        return np.clip((scores - self.centre) / self.reach, -1.0, 1.0)


def matching(corners: FloatArray, entered: FloatArray) -> BoolArray:
    """Which of the tiles at `corners` are among those at `entered`, by place."""
    known = {(x, y) for x, y in entered.tolist()}
    return np.array([(x, y) in known for x, y in corners.tolist()], dtype=np.bool_)


def check_mean(
    slide_id: str, scores: FloatArray, slide_score: float, precision: str = "float32"
) -> None:
    """Raise where the mean of the tile scores is not the slide's score, to rounding.

    A map whose tiles do not add up to the prediction would explain another model.
    """
    gap = abs(float(scores.mean()) - slide_score)
    if not gap <= _ROUNDING[precision] * max(float(np.abs(scores).max()), 1e-30):
        raise SlideError(
            f"{slide_id}: the mean of the tile scores is not the slide's score.",
            ["The features or the network changed in between; run the command again."],
        )


@dataclass(frozen=True)
class ColourKey:
    """What the colours of a run mean: a scale, and how its numbers are called.

    `whose` says whose tiles the scale is centred on. Slides that are `simulated` are called so
    wherever they are shown.
    """

    scale: ScoreScale
    link: str
    whose: str = "the training cohort"
    simulated: bool = False

    @property
    def score_name(self) -> str:
        """What the numbers are, on the scale of the predictor, under the link's honest name."""
        return LINKS[self.link].score_name


def colours_at(place: FloatArray) -> Colours:
    """(n,) from −1 to 1 → (n, 3) red, green, blue."""
    at = np.linspace(-1.0, 1.0, len(_STOPS))
    channels = [np.interp(place, at, _STOPS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def tile_colours(scores: FloatArray, scale: ScoreScale) -> Colours:
    """(tiles,) → (tiles, 3)."""
    return colours_at(scale.place(scores))
