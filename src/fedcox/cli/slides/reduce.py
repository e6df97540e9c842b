"""`fedcox slides reduce`: thousands of features per tile become a few hundred."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.slides.options import ManifestFile, WorkFolder
from fedcox.cli.slides.progress import step_display, tell_outcome

if TYPE_CHECKING:
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.reduction import Reducer


def reduce(
    manifest: ManifestFile,
    work: WorkFolder,
    size: Annotated[
        int, typer.Option(min=1, help="Features that are left for each tile.")
    ] = 256,
    method: Annotated[
        Literal["pca", "adam"],
        typer.Option(
            help="pca: the best linear reduction, from sums of the centers. adam: the paper's "
            "autoencoder, trained on 100,000 tiles in one place."
        ),
    ] = "pca",
    patients: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Fit on these patients only (a column patient_id): those of the training "
            "folds. All slides are reduced.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Features of CLAM, TRIDENT, STAMP, slideflow, Owkin or FLamby. Default: "
            "WORK/features.",
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            "--reducer",
            metavar="FILE",
            help="Fit nothing: reduce by this one, of the slides that a model was trained on.",
        ),
    ] = None,
    whiten: Annotated[
        bool,
        typer.Option("--whiten", help="Divide every feature that is left by its size."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="For the tiles and weights of adam.")] = 0,
) -> None:
    """Reduce the features of every tile, by a map that is fitted on all centers' tiles.

    Each center adds the second moments of its tiles; their sum gives the map that the
    paper's linear autoencoder approaches, the same however the patients are split. Patients
    that a model is judged on should not be in the fit: name the others with --patients. For
    new patients of a model, give its reducer with --reducer.

    Example: fedcox slides reduce slides.csv --work work --size 256 --patients training.csv
    """
    from fedcox.analysis.reducer_fit import ReducerFit, given_reducer, reducer_for
    from fedcox.analysis.slide_cohorts import opened_bags
    from fedcox.errors import InputError
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.reduction_step import FOLDER, ReduceStep
    from fedcox.slides.step import run_step

    if given is not None and (patients is not None or whiten):
        raise InputError("--reducer is fitted already; leave out --patients and --whiten.")
    listed = SlideManifest.read(manifest)
    training = listed if patients is None else _of_patients(listed, patients)
    folder = features or work / "features"
    target = work / "reducer.safetensors"
    with progress_bar() as progress:
        task = progress.add_task("opening features", total=None)
        opened = opened_bags(listed.slides, folder)
        if given is not None:
            target, reducer, kept = given, given_reducer(given, opened), True
        else:
            reducer, kept = reducer_for(
                target,
                training.slides,
                opened,
                ReducerFit(size, method, whiten, seed),
                lambda words, done, total: progress.update(
                    task, description=words, completed=done, total=total or None
                ),
            )
    typer.echo(_told(reducer, target, kept=kept))
    with step_display("reducing") as watch:
        step = ReduceStep(reducer, opened.bags, opened.faults, folder)
        outcome = run_step(step, listed.slides, work, watch)
    tell_outcome(outcome, work, FOLDER)


def _of_patients(listed: SlideManifest, path: Path) -> SlideManifest:
    """The slides of the patients that a file names; every one of them must have a slide."""
    from fedcox.errors import CohortError
    from fedcox.slides.patient_table import read_patient_names

    names = read_patient_names(path)
    without = len(names - set(listed.patients))
    if without:
        raise CohortError(
            f"Cannot fit on the patients in {path}.",
            [
                f"{without} of {len(names)} patients have no slide in the manifest. Leave them "
                "out, or write their patient_id as the manifest does."
            ],
        )
    return listed.of_patients(names)


def _told(reducer: Reducer, target: Path, *, kept: bool) -> str:
    facts = reducer.facts
    return (
        f"{target}: {reducer.features:,} features to {reducer.size:,} "
        f"({'kept from before' if kept else 'fitted'}: {facts.method}, {facts.patients:,} "
        f"patients, {facts.tiles:,} tiles; {facts.error:.2%} of the squares lost)."
    )
