"""`fedcox slides reduce`: thousands of features per tile become a few hundred."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say
from fedcox.cli.slides.options import DeepZoomTile, ManifestFile, WorkFolder
from fedcox.cli.slides.progress import step_display, tell_outcome

if TYPE_CHECKING:
    from fedcox.slides.reducer_fit import ChosenReducer

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
    bool,
    typer.Option("--whiten", help="Divide every feature that is left by its size."),
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
    from fedcox.slides.reducer_fit import ReducerChoice, ReducerFit
    from fedcox.slides.reduction import ReduceStep
    from fedcox.slides.step import REDUCED, run_step

    choice = ReducerChoice(ReducerFit(size, method, whiten, seed), patients, given)
    listed = SlideManifest.read(manifest)
    training = choice.training(listed)
    folder = features or work / "features"
    with progress_bar() as progress:
        task = progress.add_task("opening features", total=None)

        def told(words: str, done: int, total: int) -> None:
            progress.update(task, description=words, completed=done, total=total or None)

        opened = opened_bags(listed.slides, folder)
        chosen = choice.reducer(work / "reducer.safetensors", training, opened, told)
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
