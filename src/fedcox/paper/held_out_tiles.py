"""How held-out slides' tiles score: against what was planted, and as examples to draw."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcox.paper.slide_experiment import JudgedFold
from fedcox.paper.slide_pipeline import EmbeddedSlides
from fedcox.paper.slide_study import HeldOutSlide, TileRanking, planted_auc
from fedcox.slides.feature_files import OpenedBag
from fedcox.slides.tile_scores import ScoredTiles
from fedcox.slides.tissue import Region
from fedcox.survival.cohort import BoolArray

#: Held-out slides that are drawn.
_EXAMPLES = 4
#: The share of planted tiles in simulated slides that are drawn: enough of both kinds.
_SHOWN = 0.2, 0.6
#: Of a tile, so much must be planted for it to count as planted.
_PLANTED = 0.5


def tile_rankings(
    judged: JudgedFold, bags: Mapping[str, OpenedBag], planted: Mapping[str, Region]
) -> list[TileRanking]:
    """How well each slide's scores tell planted tiles from others, where there are both."""
    found = []
    for slide_id, scores in judged.scores.items():
        if slide_id not in planted:
            continue
        truth = _planted_tiles(planted[slide_id], bags[slide_id])
        auc = planted_auc(scores, truth)
        if auc is not None:
            found.append(
                TileRanking(
                    judged.seed, judged.fold, slide_id, int(truth.sum()), truth.size, auc
                )
            )
    return found


def _planted_tiles(region: Region, bag: OpenedBag) -> BoolArray:
    corners = np.zeros((0, 2)) if bag.coords is None else bag.coords
    side = bag.tile_px_level0 or 1.0
    return np.asarray(region.share(corners.astype(np.int32), side) >= _PLANTED)


def held_out_examples(
    judged: JudgedFold, embedded: EmbeddedSlides, planted: Mapping[str, Region] | None
) -> tuple[HeldOutSlide, ...]:
    """The first test slides by name; of simulated ones, those with both kinds of tiles."""
    rows = {row.slide_id: row for row in embedded.manifest.slides}
    found: list[HeldOutSlide] = []
    for slide_id in sorted(judged.scores):
        bag, path = embedded.patients.opened.bags[slide_id], rows[slide_id].path
        if bag.coords is None or path is None or bag.tile_px_level0 is None:
            continue
        truth = np.zeros(len(bag.coords), dtype=np.bool_)
        if planted is not None:
            truth = _planted_tiles(planted[slide_id], bag)
            if not _SHOWN[0] <= truth.mean() <= _SHOWN[1]:
                continue
        scores = judged.scores[slide_id]
        entered = np.ones(scores.size, dtype=np.bool_)
        tiles = ScoredTiles(slide_id, bag.coords, bag.tile_px_level0, scores, entered)
        found.append(HeldOutSlide(tiles, judged.scale, "logit", judged.fold, truth, path))
        if len(found) == _EXAMPLES:
            break
    return tuple(found)
