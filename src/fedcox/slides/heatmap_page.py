"""Heatmaps by a trained model: every slide drawn, and the page over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fedcox.files.writing import write_atomically
from fedcox.reports.number_text import count_text, noun_text, percent_text, signed_text
from fedcox.reports.page import Fact, page_html
from fedcox.slides.drawing import shown_picture
from fedcox.slides.feature_files import KnownSlide, OpenedBag
from fedcox.slides.heatmap import (
    PAGE,
    HeatmapOptions,
    HeatmapStep,
    SlideSummary,
    gallery_file,
    geojson_file,
    picture_file,
    scores_file,
    summary_in,
    write_top_tiles,
)
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.model import SlideModel
from fedcox.slides.tile_scores import ColourKey, ScoredTiles, ScoreScale

#: So many slides have their pictures on the page itself; the others are links.
SHOWN = 24
_WIDEST = 1500
_TRAINING, _THESE = "the training cohort", "the slides of this run"
Each = Callable[[Iterable[OpenedBag]], Iterable[OpenedBag]]
"""Gives back the bags it is given, and may tell how far it is."""


@dataclass(frozen=True)
class HeatmapRun:
    """What the page is about; `failed` names slides with the reason."""

    folder: Path
    slides: Sequence[str]
    failed: Sequence[tuple[str, str]]
    key: ColourKey
    model: str
    command: str


@dataclass(frozen=True)
class SlideLine:
    """A slide on the page."""

    name: str
    score: str
    tiles: str
    above: str
    highest: str
    lowest: str
    link: str
    files: tuple[tuple[str, str], ...]
    heatmap: str | None
    gallery: str | None


def write_heatmap_page(run: HeatmapRun, count: int) -> Path:
    """The page and the table of `count` extreme tiles of each slide; gives the page's place."""
    write_top_tiles(run.folder, run.slides, count)
    write_atomically(run.folder / PAGE, heatmap_html(run))
    return run.folder / PAGE


def heatmap_html(run: HeatmapRun) -> str:
    """The page as text; slides stand from the highest score to the lowest."""
    summaries = [summary_in(picture_file(run.folder, name)) for name in run.slides]
    summaries.sort(key=lambda summary: -summary.slide_score)
    lines = [
        _line(run, summary, shown=number < SHOWN) for number, summary in enumerate(summaries)
    ]
    content = {
        "run": run,
        "facts": _facts(run, summaries),
        "lines": lines,
        "shown": [line for line in lines if line.heatmap],
        "score_name": run.key.score_name,
        "low": signed_text(run.key.scale.low),
        "centre": signed_text(run.key.scale.centre),
        "high": signed_text(run.key.scale.high),
    }
    return page_html("heatmap.html.j2", content, "slides")


def _facts(run: HeatmapRun, summaries: Sequence[SlideSummary]) -> list[Fact]:
    failed = noun_text(len(run.failed), "slide") + " failed" if run.failed else ""
    facts = [
        Fact(count_text(len(summaries)), "slide" if len(summaries) == 1 else "slides", failed),
        Fact(
            count_text(sum(one.tiles for one in summaries)),
            "tiles",
            "each with its exact score",
        ),
        Fact(
            signed_text(run.key.scale.centre),
            "centre of the colours",
            f"median tile of {run.key.whose}",
        ),
    ]
    if summaries:
        ends = summaries[0], summaries[-1]
        facts += [
            Fact(signed_text(one.slide_score), f"{word} slide score", one.slide_id)
            for word, one in zip(("highest", "lowest"), ends, strict=True)
        ]
    return facts


def _line(run: HeatmapRun, summary: SlideSummary, *, shown: bool) -> SlideLine:
    name = summary.slide_id
    kinds = {
        "picture": picture_file(run.folder, name),
        "tiles": gallery_file(run.folder, name),
        "GeoJSON for QuPath": geojson_file(run.folder, name),
        "tile scores": scores_file(run.folder, name),
    }
    files = {word: path for word, path in kinds.items() if path.exists()}
    entered = count_text(summary.entered)
    return SlideLine(
        name,
        signed_text(summary.slide_score),
        entered
        if summary.entered == summary.tiles
        else f"{entered} of {count_text(summary.tiles)} scored",
        percent_text(summary.above),
        signed_text(summary.highest),
        signed_text(summary.lowest),
        _address(run, files["picture"]),
        tuple((_address(run, path), word) for word, path in files.items()),
        shown_picture(files["picture"], _WIDEST) if shown else None,
        shown_picture(files["tiles"], _WIDEST) if shown and "tiles" in files else None,
    )


def _address(run: HeatmapRun, path: Path) -> str:
    return quote(path.relative_to(run.folder).as_posix())


@dataclass(frozen=True, eq=False)
class SlideScorer:
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
    slides: SlideScorer,
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
        key=ColourKey(scale, slides.model.network.link, words, simulated),
        model=slides.model.digest,
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
        key=step.key,
        model=f"SHA-256 {step.model}",
        command=command,
    )
    return write_heatmap_page(run, step.options.tiles)
