"""`fedcox slides embed` and `reduce`: features of every tile, by a frozen network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.options import DeepZoomTile, ManifestFile, WorkFolder
from fedcox.cli.slides.progress import step_display, tell_outcome
from fedcox.cli.terminal import progress_bar, say

if TYPE_CHECKING:
    from fedcox.slides.encoder import AbstractEncoder
    from fedcox.slides.reducer_fit import ChosenReducer


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
        metavar="SEED", min=0, help="ResNet-50 with random weights: for simulated slides only."
    ),
]
NetworkDevice = Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the network runs.")]
NetworkPrecision = Annotated[
    Literal["float32", "bfloat16"] | None,
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
    device: NetworkDevice = "cpu",
    precision: NetworkPrecision = None,
    batch: TilesAtOnce = None,
    readers: ReaderProcesses = None,
) -> None:
    """Turn the tiles of every slide into features, one file per slide in WORK/features.

    Slides that have their file are kept; begin again after a crash and only the rest is done.
    A slide that cannot be read is named in WORK/failures.csv, and the others go on.

    Example: fedcox slides embed slides.csv --work WORK --weights resnet50.pth --device cuda
    """
    from fedcox.slides.embedding import embed_slides
    from fedcox.slides.encoder import load_encoder, usual_batch, usual_readers
    from fedcox.slides.manifest import SlideManifest

    slides = SlideManifest.read(manifest).slides
    encoder = load_encoder(
        weights=weights, onnx=onnx, untrained=untrained, device=device, precision=precision
    )
    _tell(encoder, untrained=untrained is not None)
    with step_display("embedding") as watch:
        outcome = embed_slides(
            slides,
            work,
            encoder,
            batch=usual_batch(device) if batch is None else batch,
            readers=usual_readers(device) if readers is None else readers,
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


Size = Annotated[int, typer.Option(min=1, help="Features that are left for each tile.")]
Method = Annotated[
    Literal["pca", "adam"],
    typer.Option(
        help="pca: the best linear reduction, from sums of the centers. adam: the paper's "
        "autoencoder, trained on 100,000 tiles in one place."
    ),
]
FittedPatients = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.csv",
        help="Fit on these patients only (a column patient_id): those of the training "
        "folds. All slides are reduced.",
    ),
]
FeaturesFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Features of CLAM, TRIDENT, STAMP, slideflow, Owkin or FLamby. Default: "
        "WORK/features.",
    ),
]
GivenReducer = Annotated[
    Path | None,
    typer.Option(
        "--reducer",
        metavar="FILE",
        help="Fit nothing: reduce by this one, of the slides that a model was trained on.",
    ),
]
Whiten = Annotated[
    bool, typer.Option("--whiten", help="Divide every feature that is left by its size.")
]


def reduce(
    manifest: ManifestFile,
    work: WorkFolder,
    size: Size = 256,
    method: Method = "pca",
    patients: FittedPatients = None,
    features: FeaturesFolder = None,
    given: GivenReducer = None,
    whiten: Whiten = False,
    seed: Annotated[int, typer.Option(min=0, help="For the tiles and weights of adam.")] = 0,
    deepzoom_tile_px: DeepZoomTile = None,
) -> None:
    """Reduce the features of every tile, by a map that is fitted on all centers' tiles.

    Each center adds the second moments of its tiles; their sum gives the map that the
    paper's linear autoencoder approaches, the same however the patients are split. Patients
    that a model is judged on should not be in the fit: name the others with --patients. For
    new patients of a model, give its reducer with --reducer.

    Example: fedcox slides reduce slides.csv --work work --size 256 --patients training.csv
    """
    from fedcox.slides.cohorts import opened_bags
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.reducer_fit import ReducerChoice
    from fedcox.slides.reduction import ReduceStep
    from fedcox.slides.step import REDUCED, run_step

    choice = ReducerChoice(size, method, whiten, seed, patients, given)
    listed = SlideManifest.read(manifest)
    training = choice.training(listed)
    folder = features or work / "features"
    with progress_bar() as progress:
        task = progress.add_task("opening features", total=None)

        def watch_fit(words: str, done: int, total: int) -> None:
            progress.update(task, description=words, completed=done, total=total or None)

        opened = opened_bags(listed.slides, folder)
        chosen = choice.reducer(work / "reducer.safetensors", training, opened, watch_fit)
    say(_line(chosen))
    with step_display("reducing") as watch:
        step = ReduceStep(chosen.reducer, opened.bags, opened.faults, folder, deepzoom_tile_px)
        outcome = run_step(step, listed.slides, work, watch)
    tell_outcome(outcome, work, REDUCED)


def _line(chosen: ChosenReducer) -> str:
    reducer, facts = chosen.reducer, chosen.reducer.facts
    return (
        f"{chosen.path}: {reducer.features:,} features to {reducer.size:,} "
        f"({'kept from before' if chosen.kept else 'fitted'}: {facts.method}, "
        f"{facts.patients:,} patients, {facts.tiles:,} tiles; {facts.error:.2%} of the squares "
        "lost)."
    )
