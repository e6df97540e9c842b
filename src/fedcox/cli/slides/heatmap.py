"""`fedcox slides heatmap`: where on the slide the risk comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.slides.options import AssumeMpp, ManifestFile, WorkFolder
from fedcox.cli.slides.predict import ModelFolder

if TYPE_CHECKING:
    from fedcox.analysis.slide_model import SlideModel
    from fedcox.analysis.tile_scores import ScoreScale
    from fedcox.reports.heatmap_step import HeatmapStep
    from fedcox.slides.manifest import ManifestRow, SlideManifest

_TRAINING, _THESE = "the training cohort", "the slides of this run"


def heatmap(
    model: ModelFolder,
    manifest: ManifestFile,
    work: WorkFolder,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder to write.")],
    slide: Annotated[
        list[str] | None,
        typer.Option(metavar="SLIDE_ID", help="Only this slide; repeat. Default: all."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Reduced features. Default: WORK/reduced."),
    ] = None,
    every_tile: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Reduced features of all tissue tiles, where more were embedded than entered "
            "the slide's score: all are drawn, those that entered it are marked.",
        ),
    ] = None,
    opacity: Annotated[
        float, typer.Option(min=0.05, max=1.0, help="Of the colours over the slide.")
    ] = 0.62,
    tiles: Annotated[
        int, typer.Option(min=1, max=20, help="Highest and lowest tiles to show of a slide.")
    ] = 8,
    assume_mpp: AssumeMpp = None,
) -> None:
    """Draw every slide's exact tile scores over its picture; write what QuPath reads.

    The mean of the tile scores is the slide's score. Colours are centred on the training
    cohort's median tile and end at the same limits for every slide. The folder holds
    heatmap.html, and per slide heatmaps/SLIDE.png, tiles/SLIDE.png (highest and lowest tiles),
    qupath/SLIDE.geojson and scores/SLIDE.csv; top_tiles.csv has the extreme tiles of all.
    Slides that have their pictures are kept.

    Example: fedcox slides heatmap model slides.csv --work work --out heatmaps
    """
    from fedcox.analysis.slide_model import SlideModel
    from fedcox.cli.slides.progress import step_display, tell_outcome
    from fedcox.reports.heatmap_step import HeatmapOptions, HeatmapStep
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.simulated_slides import is_simulated
    from fedcox.slides.step import run_step

    read, listed = SlideModel.read(model), SlideManifest.read(manifest)
    rows = _chosen(listed, slide or [])
    folder = features or work / "reduced"
    scale, words = _scale(read, rows, folder)
    simulated = read.simulated or is_simulated(manifest)
    step = HeatmapStep(
        score=lambda slide_id, known: read.scored_tiles(folder, slide_id, known, every_tile),
        digest=lambda slide_id: read.bag(every_tile or folder, slide_id).digest,
        scale=scale,
        scale_words=words,
        link=read.network.link,
        model=read.digest,
        simulated=simulated,
        options=HeatmapOptions(opacity, tiles, assume_mpp),
    )
    with step_display("drawing") as watch:
        outcome = run_step(step, rows, out, watch)
    _write_page(step, rows, out, dict(outcome.failed))
    tell_outcome(outcome, out, "heatmaps")


def _chosen(manifest: SlideManifest, names: list[str]) -> list[ManifestRow]:
    from fedcox.errors import InputError

    there = {row.slide_id: row for row in manifest.slides}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise InputError(
            "A slide is asked for that is not there.",
            [f"--slide {name}: the manifest has no such slide_id." for name in unknown],
        )
    return [there[name] for name in dict.fromkeys(names)] if names else [*manifest.slides]


def _scale(model: SlideModel, rows: list[ManifestRow], folder: Path) -> tuple[ScoreScale, str]:
    """The training cohort's; where noise forbade to keep it, that of the slides at hand."""
    from fedcox.analysis.tile_scores import ScoreScale

    scale = model.scale
    if scale is not None:
        return scale, _TRAINING
    bags, _ = model.bags(rows, folder)
    with progress_bar() as progress:
        known = progress.track(bags.values(), description="looking at all tile scores")
        return ScoreScale.of(model.tile_scores(bag) for bag in known), _THESE


def _write_page(
    step: HeatmapStep, rows: list[ManifestRow], out: Path, failed: dict[str, str]
) -> None:
    """The page and the table of extreme tiles, over all slides that have their pictures."""
    from fedcox.reports.heatmap_files import PAGE, picture_file
    from fedcox.reports.heatmap_page import HeatmapRun, write_heatmap_page
    from fedcox.reports.top_tiles import write_top_tiles

    drawn = [row.slide_id for row in rows if picture_file(out, row.slide_id).exists()]
    if not drawn:
        return
    run = HeatmapRun(
        folder=out,
        slides=drawn,
        failed=[*failed.items()],
        scale=step.scale,
        scale_words=step.scale_words,
        link=step.link,
        simulated=step.simulated,
        model=f"SHA-256 {step.model}",
        command=own_command(),
    )
    write_top_tiles(out, drawn, step.options.tiles)
    write_heatmap_page(run, out / PAGE)
    typer.echo(f"The page to read: {out / PAGE}")
