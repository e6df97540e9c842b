"""`fedcox slides predict` and `heatmap`: what a model says of new slides, and where on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.options import (
    AssumeMpp,
    ComputeDevice,
    DeepZoomTile,
    ManifestFile,
    ModelFolder,
    WorkFolder,
    to_replace,
    to_write,
)
from fedcox.cli.slides.progress import step_display, tell_left_out, tell_outcome
from fedcox.cli.terminal import command_again, progress_bar, say, show_page

if TYPE_CHECKING:
    from fedcox.slides.manifest import ManifestRow, SlideManifest


def predict(
    model: ModelFolder,
    manifest: ManifestFile,
    features: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Features, reduced as those of the training were."),
    ],
    out: Annotated[Path, to_write("FILE.csv", "file")],
    patient_score: Annotated[
        Literal["mean", "max", "concat"],
        typer.Option(
            help="Of several slides: the mean of their scores (the paper), the highest, or the "
            "score of all their tiles as one slide."
        ),
    ] = "mean",
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="TIME", help="Also the chance to be free of the event; repeat."),
    ] = None,
    device: ComputeDevice = "cpu",
    overwrite: Annotated[bool, to_replace("a file")] = False,
) -> None:
    """Score new slides: one line per slide, with its own score and its patient's risk.

    Scores are on the scale of the linear predictor; higher is worse. Features of another
    encoder or reducer than the model's are refused, slide by slide, and named in a file beside
    (scores-failures.csv); the others go on, and the exit status is then 1.

    Example: fedcox slides predict model slides.csv --features work/reduced --out scores.csv
    """
    from fedcox.files.writing import check_file, write_atomically
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.model import SlideModel, predictions

    check_file(out, overwrite=overwrite)
    read, listed = SlideModel.read(model, device), SlideManifest.read(manifest)
    with progress_bar() as progress:
        task = progress.add_task("opening features", total=None)
        bags, faults = read.bags(listed.slides, features)
        progress.update(task, description=f"scoring {len(bags):,} slides")
        table = predictions(read, listed, bags, patient_score, at or [])
        write_atomically(out, table.to_csv(index=False))
    say(f"{len(bags):,} slides of {table['patient_id'].nunique():,} patients: {out}")
    left_out = dict.fromkeys(
        [name for name in listed.patients if name not in set(table["patient_id"])],
        "No slide that can be scored.",
    )
    tell_left_out(out, "predict", faults, left_out)


SlideNames = Annotated[
    list[str] | None,
    typer.Option(metavar="SLIDE_ID", help="Only this slide; repeat. Default: all."),
]
ReducedFolder = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Reduced features. Default: WORK/reduced.")
]
EveryTileFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Reduced features of all tissue tiles, where more were embedded than entered "
        "the slide's score: all are drawn, those that entered it are marked.",
    ),
]
Opacity = Annotated[
    float, typer.Option(min=0.05, max=1.0, help="Of the colours over the slide.")
]
ExtremeTiles = Annotated[
    int, typer.Option(min=1, max=20, help="Highest and lowest tiles to show of a slide.")
]


def heatmap(
    model: ModelFolder,
    manifest: ManifestFile,
    work: WorkFolder,
    out: Annotated[Path, to_write("FOLDER")],
    slide: SlideNames = None,
    features: ReducedFolder = None,
    every_tile: EveryTileFolder = None,
    opacity: Opacity = 0.62,
    tiles: ExtremeTiles = 8,
    assume_mpp: AssumeMpp = None,
    deepzoom_tile_px: DeepZoomTile = None,
) -> None:
    """Draw every slide's exact tile scores over its picture; write what QuPath reads.

    The mean of the tile scores is the slide's score. Colours are centred on the training
    cohort's median tile and end at the same limits for every slide. The folder holds
    heatmap.html, and per slide heatmaps/SLIDE.png, tiles/SLIDE.png (highest and lowest tiles),
    qupath/SLIDE.geojson and scores/SLIDE.csv; top_tiles.csv has the extreme tiles of all.
    Slides that have their pictures are kept.

    Example: fedcox slides heatmap model slides.csv --work work --out heatmaps
    """
    from fedcox.slides.heatmap import HeatmapOptions
    from fedcox.slides.heatmap_page import SlideScorer, model_step, write_run_page
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.model import SlideModel
    from fedcox.slides.simulated_slides import is_simulated
    from fedcox.slides.step import REDUCED, run_step

    read, listed = SlideModel.read(model), SlideManifest.read(manifest)
    rows = _chosen(listed, slide or [])
    scored = SlideScorer(read, features or work / REDUCED, every_tile)
    with progress_bar() as progress:
        step = model_step(
            scored,
            listed.slides,
            HeatmapOptions(opacity, tiles, assume_mpp, deepzoom_tile_px),
            simulated=read.simulated or is_simulated(manifest),
            each=lambda bags: progress.track(bags, description="looking at all tile scores"),
        )
    with step_display("drawing") as watch:
        outcome = run_step(step, rows, out, watch)
    page = write_run_page(step, rows, out, outcome.failed, command=command_again())
    if page is not None:
        show_page(page)
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
