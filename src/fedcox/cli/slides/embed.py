"""`fedcox slides embed`: features of every tile, by a frozen network."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.say import say
from fedcox.cli.slides.options import ManifestFile, WorkFolder

if TYPE_CHECKING:
    from fedcox.slides.encoder import AbstractEncoder


class DeviceName(StrEnum):
    """Where the network runs."""

    cpu = "cpu"
    cuda = "cuda"


class PrecisionName(StrEnum):
    """The numbers that it computes with."""

    float32 = "float32"
    bfloat16 = "bfloat16"


WeightsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Weights of ResNet-50 under torchvision's names (.pth or .safetensors).",
    ),
]
OnnxFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Any encoder as an ONNX file: tiles × 3 × height × width, normalised as for "
        "ImageNet, to tiles × features.",
    ),
]
UntrainedSeed = Annotated[
    int | None,
    typer.Option(
        metavar="SEED",
        min=0,
        help="ResNet-50 with random weights: for simulated slides only.",
    ),
]
NetworkDevice = Annotated[DeviceName, typer.Option(help="Where the network runs.")]
NetworkPrecision = Annotated[
    PrecisionName | None,
    typer.Option(
        help="Of ResNet-50. Default: bfloat16 on CUDA and on processors that have it."
    ),
]
TilesAtOnce = Annotated[
    int | None,
    typer.Option(metavar="TILES", min=1, help="Tiles at once. Default: 256 on CUDA, else 32."),
]
ReaderProcesses = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processes that read slides; 0 reads in this one. Default: all cores but one "
        "on CUDA, else 1.",
    ),
]


def embed(
    manifest: ManifestFile,
    work: WorkFolder,
    weights: WeightsFile = None,
    onnx: OnnxFile = None,
    untrained: UntrainedSeed = None,
    device: NetworkDevice = DeviceName.cpu,
    precision: NetworkPrecision = None,
    batch: TilesAtOnce = None,
    readers: ReaderProcesses = None,
) -> None:
    """Turn the tiles of every slide into features, one file per slide in WORK/features.

    Slides that have their file are kept; begin again after a crash and only the rest is done.
    A slide that cannot be read is named in WORK/failures.csv, and the others go on.

    Example: fedcox slides embed slides.csv --work WORK --weights resnet50.pth --device cuda
    """
    from fedcox.cli.slides.progress import step_display, tell_outcome
    from fedcox.slides.embedding import embed_slides
    from fedcox.slides.encoder import load_encoder, usual_batch, usual_readers
    from fedcox.slides.manifest import SlideManifest

    slides = SlideManifest.read(manifest).slides
    encoder = load_encoder(
        weights=weights,
        onnx=onnx,
        untrained=untrained,
        device=device.value,
        precision=precision.value if precision else None,
    )
    _tell(encoder, untrained=untrained is not None)
    with step_display("embedding") as watch:
        outcome = embed_slides(
            slides,
            work,
            encoder,
            batch=usual_batch(device.value) if batch is None else batch,
            readers=usual_readers(device.value) if readers is None else readers,
            watch=watch,
        )
    tell_outcome(outcome, work, "features")


def _tell(encoder: AbstractEncoder, *, untrained: bool) -> None:
    """What to know of the encoder before it is at work."""
    for note in encoder.notes:
        say(note)
    if untrained:
        say(
            f"The encoder is {encoder.name}: its features mean something on simulated slides "
            "only."
        )
