"""`fedcox slides tile`: lay tiles over the tissue of every slide."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcox.cli.slides.options import ManifestFile, WorkFolder


def tile(
    manifest: ManifestFile,
    work: WorkFolder,
    tile_um: Annotated[
        float,
        typer.Option(min=1.0, metavar="MICROMETRES", help="A tile's side, in micrometres."),
    ] = 112.0,
    mpp: Annotated[
        float,
        typer.Option(
            min=0.05,
            max=20.0,
            metavar="MICROMETRES",
            help="Micrometres per pixel that tiles are read at; the defaults give 224 pixels.",
        ),
    ] = 0.5,
    max_tiles: Annotated[
        int, typer.Option(min=1, help="Of a slide with more tiles, draw so many.")
    ] = 8000,
    min_tissue: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, metavar="SHARE", help="Tiles with less tissue are left out."
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same tiles.")] = 0,
) -> None:
    """Lay tiles on tissue, without overlap: tiles/SLIDE.h5 with their places.

    Needs the masks of `fedcox slides segment`, and not the slides themselves.

    Example: fedcox slides tile slides.csv --work work --tile-um 112 --mpp 0.5
    """
    from fedcox.cli.slides.progress import step_display, tell_outcome
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.step import run_step
    from fedcox.slides.tiling import Tiling

    step = Tiling(tile_um, mpp, max_tiles, min_tissue, seed)
    slides = SlideManifest.read(manifest).slides
    with step_display("laying tiles") as watch:
        outcome = run_step(step, slides, work, watch)
    tell_outcome(outcome, work, "tiles")
