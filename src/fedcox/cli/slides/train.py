"""`fedcox slides train`: a survival model from slides, over all hospitals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.options import ComputeDevice, ManifestFile, to_replace, to_write
from fedcox.cli.slides.progress import tell_left_out
from fedcox.cli.terminal import command_again, progress_bar, say

if TYPE_CHECKING:
    from fedcox.slides.training import SlideNetworkChoice, SlideTraining, TrainingFiles
    from fedcox.solvers.training import TrainingWatcher
    from fedcox.study.plan import NetworkSolverChoice


PatientsFile = Annotated[
    Path,
    typer.Option(metavar="PATIENTS.csv", help="One line per patient: patient_id, time, event."),
]
ReducedFolder = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Reduced features: WORK/reduced, one file each.")
]
TimeColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column of follow-up.")]
EventColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the event.")]
EventValue = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="What stands for the event. Default: 1, true, yes."),
]
Width = Annotated[
    float | None,
    typer.Option(
        metavar="Q",
        help="Width of the intervals, in the unit of time. Default with --link log: pieces "
        "where the events are. cloglog, logit and --epsilon need one.",
    ),
]
Horizon = Annotated[
    float | None,
    typer.Option(metavar="TIME", help="End of follow-up. Default: the centers agree on one."),
]
Link = Annotated[
    Literal["log", "cloglog", "logit"],
    typer.Option(help="log: exact time at risk. The others group time; logit is the paper's."),
]
Balanced = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--no-balanced",
        help="Weigh events as much as all else, as in the paper. Default: yes, but not "
        "under --epsilon. With --link log it makes no difference.",
    ),
]
Solver = Annotated[
    Literal["adam", "fedavg"],
    typer.Option(help="adam: a round for each batch, as if pooled. fedavg: local epochs."),
]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the patients.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Patients of a step.")]
LearningRate = Annotated[float, typer.Option(help="Adam's step size.")]
LocalEpochs = Annotated[
    int, typer.Option(min=1, help="Of fedavg: epochs at a center in each round.")
]
Validation = Annotated[
    float,
    typer.Option(
        min=0.0, max=0.9, metavar="SHARE", help="Patients to judge by and not to train on."
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="With --validation: stop after N epochs without a gain."
    ),
]
Hidden = Annotated[int, typer.Option(min=1, help="Units of the hidden layer.")]
SlideWeight = Annotated[
    Literal["slide", "patient"],
    typer.Option(help="Every slide counts once (the paper), or every patient."),
]
SecureSums = Annotated[
    bool, typer.Option("--secure-sums", help="Only sums over centers are seen, under masks.")
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Train under patient-level differential privacy; needs --delta."),
]
Delta = Annotated[float | None, typer.Option(help="Of the guarantee, such as 1e-5.")]
PlannedPatients = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Under --epsilon: about how many, a public number."),
]
Steps = Annotated[int, typer.Option(min=1, help="Under --epsilon: rounds in all.")]
Clip = Annotated[
    float, typer.Option(help="Under --epsilon: the most one patient's gradient counts.")
]
Precision = Annotated[
    Literal["float32", "float64", "bfloat16"] | None,
    typer.Option(
        help="Of products over tiles. Default: bfloat16 on cuda, which is many times as quick, "
        "else float32."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Decides whatever is drawn.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Keep the training here after every epoch, and go on from it."
    ),
]


@contextmanager
def training_display(epochs: int) -> Iterator[TrainingWatcher]:
    """What a training reports to, drawn on standard error while the block lasts."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    from fedcox.solvers.training import EpochLoss, TrainingStep

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("agreeing on time", total=float(epochs))

        def watch(at: TrainingStep | EpochLoss) -> None:
            if isinstance(at, EpochLoss):
                line = f"epoch {at.epoch} of {epochs}: loss {at.loss:.4f}"
                if at.validation is not None:
                    line += f", held out {at.validation:.4f}"
                progress.update(task, completed=at.epoch, description=line)
                return
            part = at.epoch - 1 + at.step / at.steps
            words = f"epoch {at.epoch} of {epochs}, step {at.step} of {at.steps}"
            if isfinite(at.loss):  # under noise nobody asks for it
                words += f": loss {at.loss:.4f}"
            progress.update(task, completed=part, description=words)

        yield watch


Overwrite = Annotated[bool, to_replace("a model")]


def train(
    manifest: ManifestFile,
    patients: PatientsFile,
    features: ReducedFolder,
    out: Annotated[Path, to_write("MODEL")],
    time: TimeColumn = "time",
    event: EventColumn = "event",
    event_value: EventValue = None,
    width: Width = None,
    horizon: Horizon = None,
    link: Link = "log",
    balanced: Balanced = None,
    solver: Solver = "adam",
    epochs: Epochs = 25,
    batch_size: BatchSize = 8,
    learning_rate: LearningRate = 1e-3,
    local_epochs: LocalEpochs = 1,
    validation: Validation = 0.0,
    patience: Patience = None,
    hidden: Hidden = 128,
    slide_weight: SlideWeight = "slide",
    secure_sums: SecureSums = False,
    epsilon: Epsilon = None,
    delta: Delta = None,
    planned_patients: PlannedPatients = None,
    steps: Steps = 100,
    clip: Clip = 1.0,
    seed: Seed = 0,
    device: ComputeDevice = "cpu",
    precision: Precision = None,
    checkpoint: Checkpoint = None,
    overwrite: Overwrite = False,
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
    from fedcox.slides.training import SlideNetworkChoice, check_model_folder
    from fedcox.study.plan import NetworkSolverChoice, TrainingNoise

    check_model_folder(out, overwrite=overwrite)
    noise = TrainingNoise(epsilon, delta, planned_patients, steps, clip)
    choice = NetworkSolverChoice(
        solver, epochs, batch_size, learning_rate, local_epochs, validation, patience, noise
    )
    network = SlideNetworkChoice(
        hidden, width, horizon, link, balanced, slide_weight, device, precision, seed
    )
    files = _files(manifest, patients, features, time, event, event_value)
    _write(_trained(files, network, choice, secure_sums, checkpoint), out, overwrite=overwrite)


def _files(
    manifest: Path, patients: Path, features: Path, time: str, event: str, value: str | None
) -> TrainingFiles:
    from fedcox.slides.manifest import OutcomeColumns
    from fedcox.slides.training import TrainingFiles

    columns = OutcomeColumns(time=time, event=event, event_value=value)
    return TrainingFiles(manifest, patients, features, columns)


def _trained(
    files: TrainingFiles,
    network: SlideNetworkChoice,
    choice: NetworkSolverChoice,
    secure_sums: bool,
    checkpoint: Path | None,
) -> SlideTraining:
    """Read, train and score the training tiles, each with its progress on the terminal."""
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


def _write(training: SlideTraining, out: Path, *, overwrite: bool) -> None:
    """Write the model; tell what was trained, in a few lines, and who was left out."""
    from fedcox.slides.training import training_lines, write_model

    write_model(training, out, command_again(), overwrite=overwrite)
    for line in training_lines(training, out):
        say(line)
    cohorts = training.cohorts
    tell_left_out(out, "train", cohorts.failures, cohorts.patients_left_out)
