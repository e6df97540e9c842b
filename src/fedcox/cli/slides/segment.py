"""`fedcox slides segment`: find the tissue of every slide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.slides.options import AssumeMpp, ManifestFile, WorkFolder

UnetFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.safetensors",
        help="A U-Net of your own, from `fedcox slides train-unet`, instead of Otsu.",
    ),
]
MaskMicrometres = Annotated[
    float | None,
    typer.Option(
        min=4.0,
        max=100.0,
        metavar="MICROMETRES",
        help="Micrometres per pixel of the mask; default: 8, or the U-Net's own.",
    ),
]
SpeckArea = Annotated[
    float,
    typer.Option(
        "--speck-um2", min=0.0, metavar="AREA", help="Drop pieces smaller than this, in µm²."
    ),
]
HoleArea = Annotated[
    float,
    typer.Option(
        "--hole-um2", min=0.0, metavar="AREA", help="Fill holes smaller than this, in µm²."
    ),
]
Overviews = Annotated[
    bool,
    typer.Option(
        "--overviews",
        help="Also write WORK/overviews/SLIDE.png, to draw masks on for a U-Net.",
    ),
]


def segment(
    manifest: ManifestFile,
    work: WorkFolder,
    unet: UnetFile = None,
    mask_um: MaskMicrometres = None,
    speck_um2: SpeckArea = 50_000.0,
    hole_um2: HoleArea = 50_000.0,
    assume_mpp: AssumeMpp = None,
    overviews: Overviews = False,
) -> None:
    """Find tissue: masks/SLIDE.png, and masks/SLIDE.geojson for QuPath.

    By Otsu's threshold of the saturation, in micrometres, whatever the scanner.
    Pen marks are coloured and count as tissue; blur and folds are not looked
    for. So look at the masks.

    Example: fedcox slides segment slides.csv --work work
    """
    from fedcox.cli.slides.progress import step_display, tell_outcome
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.step import run_step
    from fedcox.slides.tiling import Segmentation
    from fedcox.slides.tissue import chosen_finder

    step = Segmentation(
        chosen_finder(unet, mask_um), speck_um2, hole_um2, assume_mpp, overviews
    )
    slides = SlideManifest.read(manifest).slides
    with step_display("finding tissue") as watch:
        outcome = run_step(step, slides, work, watch)
    tell_outcome(outcome, work, "masks")
