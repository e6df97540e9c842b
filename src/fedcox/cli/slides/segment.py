"""`fedcox slides segment`: find the tissue of every slide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.slides.options import AssumeMpp, ManifestFile, WorkFolder

if TYPE_CHECKING:
    from fedcox.slides.tissue import AbstractTissueFinder


def segment(
    manifest: ManifestFile,
    work: WorkFolder,
    unet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.safetensors",
            help="A U-Net of your own, from `fedcox slides train-unet`, instead of Otsu.",
        ),
    ] = None,
    mask_um: Annotated[
        float | None,
        typer.Option(
            min=4.0,
            max=100.0,
            metavar="MICROMETRES",
            help="Micrometres per pixel of the mask; default: 8, or the U-Net's own.",
        ),
    ] = None,
    speck_um2: Annotated[
        float,
        typer.Option(
            "--speck-um2",
            min=0.0,
            metavar="AREA",
            help="Drop pieces smaller than this, in µm².",
        ),
    ] = 50_000.0,
    hole_um2: Annotated[
        float,
        typer.Option(
            "--hole-um2", min=0.0, metavar="AREA", help="Fill holes smaller than this, in µm²."
        ),
    ] = 50_000.0,
    assume_mpp: AssumeMpp = None,
    overviews: Annotated[
        bool,
        typer.Option(
            "--overviews",
            help="Also write WORK/overviews/SLIDE.png, to draw masks on for a U-Net.",
        ),
    ] = False,
) -> None:
    """Find tissue: masks/SLIDE.png, and masks/SLIDE.geojson for QuPath.

    By Otsu's threshold of the saturation, in micrometres, whatever the scanner.
    Pen marks are coloured and count as tissue; blur and folds are not looked
    for. So look at the masks.

    Example: fedcox slides segment slides.csv --work work
    """
    from fedcox.cli.slides.progress import step_display, tell_outcome
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.segmentation import Segmentation
    from fedcox.slides.step import run_step

    step = Segmentation(_finder(unet, mask_um), speck_um2, hole_um2, assume_mpp, overviews)
    slides = SlideManifest.read(manifest).slides
    with step_display("finding tissue") as watch:
        outcome = run_step(step, slides, work, watch)
    tell_outcome(outcome, work, "masks")


def _finder(unet: Path | None, mask_um: float | None) -> AbstractTissueFinder:
    from fedcox.errors import InputError, needs_extra
    from fedcox.slides.tissue import OtsuTissue

    if unet is None:
        return OtsuTissue() if mask_um is None else OtsuTissue(mask_um)
    if mask_um is not None:
        raise InputError(
            "--mask-um would change nothing: a U-Net has the resolution it was trained at.",
            ["Leave out --mask-um, or train a U-Net at that resolution."],
        )
    try:
        from fedcox.slides.unet import read_unet
    except ImportError as error:
        raise needs_extra("torch", "slides") from error
    return read_unet(unet)
