"""`fedcox reproduce slides`: from whole slides to survival, over centers and pooled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.reproduce.options import Out, Overwrite, Quick, Resume


def slides(
    out: Out,
    quick: Quick = False,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--slides",
            metavar="SLIDES.csv",
            help="Slides of your own: slide_id, patient_id, center, path. Default: simulated.",
        ),
    ] = None,
    patients: Annotated[
        Path | None,
        typer.Option(metavar="PATIENTS.csv", help="With --slides: patient_id, time, event."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --slides: weights of a ResNet-50."),
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --slides: an encoder as ONNX.")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --slides: features ready made."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="WORK", help="With --slides: where steps keep files."),
    ] = None,
    cancer: Annotated[
        str | None,
        typer.Option(help="With --slides: BRCA, COAD, KIRC or LGG, to set the paper's beside."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where tiles are encoded: cpu or cuda.")] = "cpu",
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Section 6.3, table 2: whole slides, DT-FL over centers against MINI on pooled slides.

    Without slides of your own it simulates some, and goes the whole way from pyramids on disk
    to heatmaps: segment, tile, embed with an untrained ResNet-50, reduce, train. With --slides
    it does the same on your folder; the paper's sizes are 5 runs of 5 folds.

    fedcox reproduce slides --quick --out slides

    fedcox reproduce slides --slides slides.csv --patients patients.csv --weights resnet50.pth
    --cancer KIRC --device cuda --out kirc
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.cli.reproduce_slides import OwnSlides, reproduce_slides

        own = OwnSlides(manifest, patients, weights, onnx, features, work, cancer, device)
        reproduce_slides(out, own, quick=quick, resume=resume, overwrite=overwrite)
