"""Maps of the held-out slides of an experiment, with the page that ties them together."""

from __future__ import annotations

from pathlib import Path

from fedcox.paper.slide_study import HeldOutSlide, SlideStudy
from fedcox.slides.feature_files import KnownSlide
from fedcox.slides.heatmap import HeatmapOptions, HeatmapStep
from fedcox.slides.heatmap_files import PAGE, write_top_tiles
from fedcox.slides.heatmap_page import HeatmapRun, write_heatmap_page
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.step import run_step
from fedcox.slides.tile_scores import ColourKey, ScoredTiles


def draw_examples(study: SlideStudy, folder: Path, *, command: str) -> None:
    """Draw the study's examples, all of one fold and so on one scale, into `folder`."""
    if not study.examples:
        return
    by_name = {slide.tiles.slide_id: slide for slide in study.examples}
    first = study.examples[0]

    def score(slide_id: str, known: KnownSlide) -> ScoredTiles:
        return by_name[slide_id].tiles

    options = HeatmapOptions()
    step = HeatmapStep(
        score=score,
        digest=lambda slide_id: _digest(by_name[slide_id]),
        key=ColourKey(first.scale, first.link, "the training folds", study.simulated),
        model="",
        options=options,
    )
    rows = [ManifestRow(name, "", "", slide.path) for name, slide in by_name.items()]
    outcome = run_step(step, rows, folder)
    drawn = [row.slide_id for row in rows if row.slide_id not in outcome.failed]
    run = HeatmapRun(
        folder=folder,
        slides=drawn,
        failed=[*outcome.failed.items()],
        key=step.key,
        model=f"trained without fold {first.fold}, not kept",
        command=command,
    )
    write_top_tiles(folder, drawn, options.tiles)
    write_heatmap_page(run, folder / PAGE)


def _digest(slide: HeldOutSlide) -> str:
    from hashlib import sha256

    return sha256(slide.tiles.scores.tobytes()).hexdigest()
