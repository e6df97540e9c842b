"""`fedcox slides train`: a survival model from slides, over all hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.slides.options import ComputeDevice, ManifestFile

if TYPE_CHECKING:
    from fedcox.analysis.slide_cohorts import SlideCohorts
    from fedcox.analysis.slide_training import SlideTraining
    from fedcox.slides.patient_table import OutcomeColumns


def train(
    manifest: ManifestFile,
    patients: Annotated[
        Path,
        typer.Option(
            metavar="PATIENTS.csv", help="One line per patient: patient_id, time, event."
        ),
    ],
    features: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Reduced features: WORK/reduced, one file each."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The folder to write.")],
    time: Annotated[str, typer.Option(metavar="COLUMN", help="Column of follow-up.")] = "time",
    event: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the event.")
    ] = "event",
    event_value: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="What stands for the event. Default: 1, true, yes."),
    ] = None,
    width: Annotated[
        float, typer.Option(metavar="Q", help="Width of the intervals, in the unit of time.")
    ] = 30.0,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", help="End of follow-up. Default: the centers agree on one."
        ),
    ] = None,
    link: Annotated[
        Literal["logit", "cloglog"], typer.Option(help="logit is the paper's.")
    ] = "logit",
    balanced: Annotated[
        bool | None,
        typer.Option(
            "--balanced/--no-balanced",
            help="Weigh events as much as all else, as in the paper. Default: yes, but not "
            "under --epsilon.",
        ),
    ] = None,
    solver: Annotated[
        Literal["adam", "fedavg"],
        typer.Option(help="adam: a round for each batch, as if pooled. fedavg: local epochs."),
    ] = "adam",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the patients.")] = 25,
    batch_size: Annotated[int, typer.Option(min=1, help="Patients of a step.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Adam's step size.")] = 1e-3,
    local_epochs: Annotated[
        int, typer.Option(min=1, help="Of fedavg: epochs at a center in each round.")
    ] = 1,
    validation: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, metavar="SHARE", help="Patients to judge by and not to train on."
        ),
    ] = 0.0,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="With --validation: stop after N epochs without a gain."
        ),
    ] = None,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the hidden layer.")] = 128,
    slide_weight: Annotated[
        Literal["slide", "patient"],
        typer.Option(help="Every slide counts once (the paper), or every patient."),
    ] = "slide",
    secure_sums: Annotated[
        bool,
        typer.Option("--secure-sums", help="Only sums over centers are seen, under masks."),
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Train under patient-level differential privacy; needs --delta."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Of the guarantee, such as 1e-5.")] = None,
    planned_patients: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Under --epsilon: about how many, a public number."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Under --epsilon: rounds in all.")] = 100,
    clip: Annotated[
        float, typer.Option(help="Under --epsilon: the most one patient's gradient counts.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Decides whatever is drawn.")] = 0,
    device: ComputeDevice = "cpu",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the training here after every epoch, and go on from it."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is there already.")
    ] = False,
) -> None:
    """Train the paper's slide model over all centers and write MODEL/.

    Tiles are scored by a small network and averaged; the discrete-time model ties the score to
    survival. Every center replies with sums over its own patients: the training is the same as
    if the slides lay in one place. MODEL holds network.safetensors, training.json and
    ledger.jsonl (what left each center).

    Example: fedcox slides train slides.csv --patients patients.csv --features work/reduced
    --out model

    Slides that cannot be used are named, and the others go on; the exit status is then 1.
    """
    from fedcox.analysis.network_plan import NetworkPlan
    from fedcox.analysis.network_solver_choice import NetworkSolverChoice
    from fedcox.analysis.slide_training import train_on_slides
    from fedcox.cli.slides.training_progress import training_display
    from fedcox.models.architecture import TileScorer
    from fedcox.reports.model_folder import check_model_folder, write_model
    from fedcox.slides.patient_table import OutcomeColumns
    from fedcox.slides.simulated_slides import is_simulated

    check_model_folder(out, overwrite=overwrite)
    choice = NetworkSolverChoice(
        solver=solver,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        validation=validation,
        patience=patience,
        local_epochs=local_epochs,
        epsilon=epsilon,
        delta=delta,
        planned_patients=planned_patients,
        steps=steps,
        clip=clip,
    )
    made = choice.made()
    columns = OutcomeColumns(time=time, event=event, event_value=event_value)
    cohorts = _read(manifest, patients, features, columns)
    plan = NetworkPlan(
        TileScorer(cohorts.opened.features, hidden),
        width,
        horizon,
        link,
        balanced=epsilon is None if balanced is None else balanced,
        slide_weight=slide_weight,
        solver=made,
        device=device,
        seed=seed,
    )
    with training_display(choice.length) as watch:
        training = train_on_slides(
            plan,
            cohorts,
            watch,
            validation=validation,
            secure_sums=secure_sums,
            checkpoint=checkpoint,
        )
    training = _with_facts(training, simulated=is_simulated(manifest))
    write_model(training, out, own_command(), overwrite=overwrite)
    _tell(training, out)


def _read(
    manifest: Path, patients: Path, features: Path, columns: OutcomeColumns
) -> SlideCohorts:
    from fedcox.analysis.slide_cohorts import slide_cohorts
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.patient_table import PatientTable

    with progress_bar() as progress:
        progress.add_task(f"opening {features}", total=None)
        listed = SlideManifest.read(manifest)
        return slide_cohorts(listed, PatientTable.read(patients, columns), features)


def _with_facts(training: SlideTraining, *, simulated: bool) -> SlideTraining:
    from fedcox.analysis.slide_training import with_facts

    with progress_bar() as progress:
        return with_facts(
            training,
            simulated=simulated,
            each=lambda bags: progress.track(bags, description="scoring the training tiles"),
        )


def _tell(training: SlideTraining, out: Path) -> None:
    """What was trained, in a few lines; status 1 where slides were left out."""
    from fedcox.reports.training_lines import training_lines

    for line in training_lines(training, out):
        typer.echo(line)
    failures = training.cohorts.failures
    if failures:
        for slide_id, reason in failures.items():
            typer.echo(f"{slide_id}: left out. {reason}", err=True)
        raise typer.Exit(1)
