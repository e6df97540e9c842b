"""`fedcox slides train`: a survival model from slides, over all hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say
from fedcox.cli.slides import training_options as option
from fedcox.cli.slides.options import ComputeDevice, ManifestFile

if TYPE_CHECKING:
    from fedcox.slides.training import SlideNetworkChoice, SlideTraining, TrainingFiles
    from fedcox.study.network_solver_choice import NetworkSolverChoice


def train(
    manifest: ManifestFile,
    patients: option.PatientsFile,
    features: option.ReducedFolder,
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The folder to write.")],
    time: option.TimeColumn = "time",
    event: option.EventColumn = "event",
    event_value: option.EventValue = None,
    width: option.Width = None,
    horizon: option.Horizon = None,
    link: option.Link = "log",
    balanced: option.Balanced = None,
    solver: option.Solver = "adam",
    epochs: option.Epochs = 25,
    batch_size: option.BatchSize = 8,
    learning_rate: option.LearningRate = 1e-3,
    local_epochs: option.LocalEpochs = 1,
    validation: option.Validation = 0.0,
    patience: option.Patience = None,
    hidden: option.Hidden = 128,
    slide_weight: option.SlideWeight = "slide",
    secure_sums: option.SecureSums = False,
    epsilon: option.Epsilon = None,
    delta: option.Delta = None,
    planned_patients: option.PlannedPatients = None,
    steps: option.Steps = 100,
    clip: option.Clip = 1.0,
    seed: option.Seed = 0,
    device: ComputeDevice = "cpu",
    precision: option.Precision = None,
    checkpoint: option.Checkpoint = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is there already.")
    ] = False,
) -> None:
    """Train the paper's slide model over all centers and write MODEL/.

    Tiles are scored by a small network and averaged; a hazard that is constant within pieces of
    time, or the paper's grouped time (--link logit --width 30), ties the score to survival.
    Every center replies with sums over its own patients: the training is the same as
    if the slides lay in one place. MODEL holds network.safetensors, training.json and
    ledger.jsonl (what left each center).

    Slides that cannot be used, and patients without one, are named in MODEL-failures.csv, and
    the others go on; the exit status is then 1.

    Example: fedcox slides train slides.csv --patients patients.csv --features work/reduced
    --out model
    """
    from fedcox.slides.manifest import OutcomeColumns
    from fedcox.slides.training import (
        SlideNetworkChoice,
        TrainingFiles,
        check_model_folder,
        write_model,
    )
    from fedcox.study.network_solver_choice import NetworkSolverChoice, NoiseChoice

    check_model_folder(out, overwrite=overwrite)
    noise = NoiseChoice(epsilon, delta, planned_patients, steps, clip)
    choice = NetworkSolverChoice(
        solver, epochs, batch_size, learning_rate, local_epochs, validation, patience, noise
    )
    network = SlideNetworkChoice(
        hidden, width, horizon, link, balanced, slide_weight, device, precision, seed
    )
    columns = OutcomeColumns(time=time, event=event, event_value=event_value)
    files = TrainingFiles(manifest, patients, features, columns)
    training = _trained(files, network, choice, secure_sums=secure_sums, checkpoint=checkpoint)
    write_model(training, out, own_command(), overwrite=overwrite)
    _tell(training, out)


def _trained(
    files: TrainingFiles,
    network: SlideNetworkChoice,
    choice: NetworkSolverChoice,
    *,
    secure_sums: bool,
    checkpoint: Path | None,
) -> SlideTraining:
    """Read, train and score the training tiles, each with its progress on the terminal."""
    from fedcox.cli.slides.training_progress import training_display
    from fedcox.slides.training import train_on_slides, with_facts

    solver = choice.made()
    with progress_bar() as progress:
        progress.add_task(f"opening {files.features}", total=None)
        cohorts = files.cohorts()
    plan = network.plan(cohorts.opened.features, solver)
    with training_display(choice.length) as watch:
        training = train_on_slides(
            plan,
            cohorts,
            watch,
            validation=choice.validation,
            secure_sums=secure_sums,
            checkpoint=checkpoint,
        )
    with progress_bar() as progress:
        return with_facts(
            training,
            simulated=files.simulated,
            each=lambda bags: progress.track(bags, description="scoring the training tiles"),
        )


def _tell(training: SlideTraining, out: Path) -> None:
    """What was trained, in a few lines, and who was left out."""
    from fedcox.cli.slides.progress import tell_left_out
    from fedcox.slides.training import training_lines

    for line in training_lines(training, out):
        say(line)
    cohorts = training.cohorts
    tell_left_out(out, "train", cohorts.failures, cohorts.patients_left_out)
