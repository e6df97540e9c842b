"""Heatmaps by a trained model: the step that draws them, and the page over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcox.slides.heatmap.files import PAGE, picture_file
from fedcox.slides.heatmap.page import HeatmapRun, write_heatmap_page
from fedcox.slides.heatmap.step import HeatmapOptions, HeatmapStep
from fedcox.slides.heatmap.top_tiles import write_top_tiles
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.model import SlideModel
from fedcox.slides.opened_bag import KnownSlide, OpenedBag
from fedcox.slides.tile_scores import ScoredTiles, ScoreScale

_TRAINING, _THESE = "the training cohort", "the slides of this run"

Each = Callable[[Iterable[OpenedBag]], Iterable[OpenedBag]]
"""Gives back the bags it is given, and may tell how far it is."""


@dataclass(frozen=True, eq=False)
class ScoredSlides:
    """Slides as a model scores them.

    `folder` has the features behind the slides' scores, `every_tile` those of more tiles.
    """

    model: SlideModel
    folder: Path
    every_tile: Path | None = None

    def score(self, slide_id: str, known: KnownSlide) -> ScoredTiles:
        """The tiles of a slide with their places and scores."""
        return self.model.scored_tiles(self.folder, slide_id, known, self.every_tile)

    def digest(self, slide_id: str) -> str:
        """Of all features behind what is drawn: the slide's score, and the tiles."""
        folders = [self.folder] if self.every_tile is None else [self.folder, self.every_tile]
        return " ".join(self.model.bag(folder, slide_id).digest for folder in folders)

    def scale(self, rows: Sequence[ManifestRow], each: Each) -> tuple[ScoreScale, str]:
        """The training cohort's; where noise forbade to keep it, that of the slides at hand."""
        known = self.model.scale
        if known is not None:
            return known, _TRAINING
        bags, _ = self.model.bags(rows, self.folder)
        scores = (self.model.tile_scores(bag) for bag in each(bags.values()))
        return ScoreScale.of(scores), _THESE


def model_step(
    slides: ScoredSlides,
    rows: Sequence[ManifestRow],
    options: HeatmapOptions,
    *,
    simulated: bool,
    each: Each = lambda bags: bags,
) -> HeatmapStep:
    """The step that draws slides, all on one scale: the model's, or else that of `rows`."""
    scale, words = slides.scale(rows, each)
    return HeatmapStep(
        score=slides.score,
        digest=slides.digest,
        scale=scale,
        scale_words=words,
        link=slides.model.network.link,
        model=slides.model.digest,
        simulated=simulated,
        options=options,
    )


def write_run_page(
    step: HeatmapStep,
    rows: Sequence[ManifestRow],
    folder: Path,
    failed: Mapping[str, str],
    *,
    command: str,
) -> Path | None:
    """The page and the table of extreme tiles, over all slides that have their pictures.

    A picture of a slide that failed now is of an earlier run. None where nothing was drawn.
    """
    names = [row.slide_id for row in rows if row.slide_id not in failed]
    drawn = [name for name in names if picture_file(folder, name).exists()]
    if not drawn:
        return None
    run = HeatmapRun(
        folder=folder,
        slides=drawn,
        failed=[*failed.items()],
        scale=step.scale,
        scale_words=step.scale_words,
        link=step.link,
        simulated=step.simulated,
        model=f"SHA-256 {step.model}",
        command=command,
    )
    write_top_tiles(folder, drawn, step.options.tiles)
    write_heatmap_page(run, folder / PAGE)
    return folder / PAGE
