"""`fedcox slides train`: a survival model from slides, over all hospitals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.slides.options import ManifestFile

if TYPE_CHECKING:
    from fedcox.analysis.network_plan import NetworkPlan
    from fedcox.analysis.slide_cohorts import SlideCohorts
    from fedcox.analysis.trained_network import TrainedNetwork
    from fedcox.engines.in_process import InProcess
    from fedcox.solvers.network_solver import AbstractNetworkSolver, NetworkWatcher


class LinkName(StrEnum):
    """How hazards depend on scores."""

    logit = "logit"
    cloglog = "cloglog"


class SolverName(StrEnum):
    """Who moves the weights."""

    adam = "adam"
    fedavg = "fedavg"


class SlideWeightName(StrEnum):
    """What counts once."""

    slide = "slide"
    patient = "patient"


class DeviceName(StrEnum):
    """Where the network is computed."""

    cpu = "cpu"
    cuda = "cuda"


@dataclass(frozen=True)
class _Solving:
    """The options that make a solver."""

    solver: SolverName
    epochs: int
    batch_size: int
    learning_rate: float
    validation: float
    patience: int | None
    local_epochs: int
    epsilon: float | None
    delta: float | None
    planned_patients: int | None
    steps: int
    clip: float


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
    link: Annotated[LinkName, typer.Option(help="logit is the paper's.")] = LinkName.logit,
    balanced: Annotated[
        bool | None,
        typer.Option(
            "--balanced/--no-balanced",
            help="Weigh events as much as all else, as in the paper. Default: yes, but not "
            "under --epsilon.",
        ),
    ] = None,
    solver: Annotated[
        SolverName,
        typer.Option(help="adam: a round for each batch, as if pooled. fedavg: local epochs."),
    ] = SolverName.adam,
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
        SlideWeightName,
        typer.Option(help="Every slide counts once (the paper), or every patient."),
    ] = SlideWeightName.slide,
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
    device: Annotated[DeviceName, typer.Option(help="Where it is computed.")] = DeviceName.cpu,
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

    fedcox slides train slides.csv --patients patients.csv --features work/reduced --out model

    Slides that cannot be used are named, and the others go on; the exit status is then 1.
    """
    from fedcox.reports.model_folder import check_model_folder, write_model
    from fedcox.slides.patient_table import OutcomeColumns

    check_model_folder(out, overwrite=overwrite)
    solving = _Solving(
        solver,
        epochs,
        batch_size,
        learning_rate,
        validation,
        patience,
        local_epochs,
        epsilon,
        delta,
        planned_patients,
        steps,
        clip,
    )
    made = _solver(solving)
    columns = OutcomeColumns(time=time, event=event, event_value=event_value)
    cohorts = _read(manifest, patients, features, columns)
    plan = _plan(
        cohorts,
        made,
        hidden=hidden,
        width=width,
        horizon=horizon,
        link=link.value,
        balanced=epsilon is None if balanced is None else balanced,
        slide_weight=slide_weight.value,
        device=device.value,
        seed=seed,
    )
    trained, index = _trained(plan, cohorts, secure_sums, checkpoint, solving)
    simulated = (manifest.parent / "planted.json").exists()
    trained = _with_facts(trained, cohorts, simulated=simulated)
    about = {
        "command": own_command(),
        "simulated": simulated,
        # Counts of patients and slides would undo what the noise is for.
        "slides": None if epsilon else len(cohorts.opened.bags),
        "slides_left_out": None if epsilon else dict(cohorts.failures),
        "validation_c_index": index,
        "features": dict(trained.facts),
    }
    write_model(trained, out, about, overwrite=overwrite)
    _tell(trained, cohorts, out, index)


def _solver(given: _Solving) -> AbstractNetworkSolver:
    """The solver that the options name; options that do nothing are refused."""
    from fedcox.errors import InputError
    from fedcox.solvers.network_adam import NetworkAdam
    from fedcox.solvers.network_averaging import NetworkAveraging

    faults = []
    if given.patience is not None and not given.validation:
        faults.append("--patience needs patients to judge by: say --validation 0.2, too.")
    if given.local_epochs > 1 and given.solver is not SolverName.fedavg:
        faults.append("--local-epochs goes with --solver fedavg.")
    if given.epsilon is None and not given.delta == given.planned_patients is None:
        faults.append("--delta and --planned-patients go with --epsilon.")
    if given.epsilon is not None:
        faults += _private_faults(given)
    if faults:
        raise InputError("These options do not go together.", faults)
    if given.epsilon is not None:
        return _private(given)
    if given.solver is SolverName.fedavg:
        return NetworkAveraging(
            given.epochs,
            given.local_epochs,
            given.batch_size,
            given.learning_rate,
            validation=given.validation,
            patience=given.patience,
        )
    return NetworkAdam(
        given.epochs,
        given.batch_size,
        given.learning_rate,
        validation=given.validation,
        patience=given.patience,
    )


def _private_faults(given: _Solving) -> Iterator[str]:
    if given.delta is None:
        yield "--epsilon needs --delta, such as 1e-5."
    if given.planned_patients is None:
        yield "--epsilon needs --planned-patients, about how many take part: a public number."
    if given.validation:
        yield "--validation would ask for more than --epsilon pays for; leave it out."
    if given.solver is SolverName.fedavg:
        yield "--epsilon has a solver of its own; leave --solver out."


def _private(given: _Solving) -> AbstractNetworkSolver:
    from fedcox.solvers.private_network import PrivateNetwork

    return PrivateNetwork(
        patients=given.planned_patients or 0,
        epsilon=given.epsilon or 0.0,
        delta=given.delta or 0.0,
        steps=given.steps,
        clip=given.clip,
    )


def _read(manifest: Path, patients: Path, features: Path, columns: Any) -> SlideCohorts:
    from fedcox.analysis.slide_cohorts import slide_cohorts
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.patient_table import PatientTable

    with progress_bar() as progress:
        progress.add_task(f"opening {features}", total=None)
        listed = SlideManifest.read(manifest)
        return slide_cohorts(listed, PatientTable.read(patients, columns), features)


def _plan(
    cohorts: SlideCohorts, solver: AbstractNetworkSolver, *, hidden: int, **given: Any
) -> NetworkPlan:
    from fedcox.analysis.network_plan import NetworkPlan
    from fedcox.models.architecture import TileScorer

    return NetworkPlan(TileScorer(cohorts.opened.features, hidden), solver=solver, **given)


def _trained(
    plan: NetworkPlan,
    cohorts: SlideCohorts,
    secure_sums: bool,
    checkpoint: Path | None,
    given: _Solving,
) -> tuple[TrainedNetwork, float | None]:
    """The network, and its c-index on the patients that were held out."""
    from fedcox.analysis.network_training import train_network, with_noise
    from fedcox.analysis.torch_threads import threads_for
    from fedcox.engines.in_process import InProcess

    centers = {name: own for name, own in cohorts.cohorts.items() if own.patients}
    federation = InProcess.from_cohorts(centers)
    asked: Any = federation
    if secure_sums:
        from fedcox.engines.masked import Masked

        inside = federation if plan.private is None else with_noise(plan, federation)
        asked = Masked.around(inside, study="slides")
    with threads_for(centers.values()), _watching(given) as watch:
        trained = train_network(plan, asked, watch, checkpoint=checkpoint)
    index = None
    if given.validation:
        index = _held_out_index(trained, federation, plan.seed, given.validation)
    return trained, index


def _held_out_index(
    trained: TrainedNetwork, federation: InProcess, seed: int, share: float
) -> float | None:
    """On true times; all patients are in this process, so nothing is sent for it."""
    import numpy as np

    from fedcox.federation.batch import HeldOut
    from fedcox.survival.cohort import Cohort
    from fedcox.survival.concordance import concordance_index

    everybody = Cohort.joined([center.cohort for center in federation.centers])
    held = HeldOut(seed, share, everybody.patients).numbers()
    tested = everybody.take(np.isin(everybody.number, held))
    return concordance_index(tested.time, tested.event, trained.risk(tested)).index


def _with_facts(
    trained: TrainedNetwork, cohorts: SlideCohorts, *, simulated: bool
) -> TrainedNetwork:
    """What heatmaps and predictions must know: the features, and the scale of tile scores."""
    from fedcox.analysis.slide_model import feature_facts
    from fedcox.analysis.tile_scores import ScoreScale
    from fedcox.models.tile_scorer import tile_scores

    told: dict[str, Any] = {**feature_facts(cohorts.opened), "simulated": simulated}
    architecture: Any = trained.architecture
    if trained.record is not None and trained.record.guarantee is None:
        with progress_bar() as progress:
            bags = progress.track(
                cohorts.opened.bags.values(), description="scoring the training tiles"
            )
            scale = ScoreScale.of(
                tile_scores(bag.features.read(), architecture, trained.theta) for bag in bags
            )
        told |= {"tile_score_centre": scale.centre, "tile_score_reach": scale.reach}
    return trained.with_facts(**told)


@contextmanager
def _watching(given: _Solving) -> Iterator[NetworkWatcher]:
    """A line with epoch, loss and the time left."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    from fedcox.solvers.network_solver import EpochLoss, NetworkStep

    total = given.steps if given.epsilon is not None else given.epochs
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("agreeing on time", total=float(total))

        def watch(at: NetworkStep | EpochLoss) -> None:
            if isinstance(at, EpochLoss):
                told = f"epoch {at.epoch} of {total}: loss {at.loss:.4f}"
                if at.validation is not None:
                    told += f", held out {at.validation:.4f}"
                progress.update(task, completed=at.epoch, description=told)
                return
            part = at.epoch - 1 + at.step / at.steps
            words = f"epoch {at.epoch} of {total}, step {at.step} of {at.steps}"
            if isfinite(at.loss):  # under noise nobody asks for it
                words += f": loss {at.loss:.4f}"
            progress.update(task, completed=part, description=words)

        yield watch


def _tell(
    trained: TrainedNetwork, cohorts: SlideCohorts, out: Path, index: float | None
) -> None:
    """What was trained, in a few lines; status 1 where slides were left out."""
    record = trained.record
    if record is None:
        return
    sent = f"{record.rounds:,} rounds, {record.bytes_up / 1e6:,.1f} MB sent by all centers"
    if record.patients is not None:
        counts = f"{record.patients:,} patients, {record.events:,} events"
        typer.echo(f"{out}: {counts}, {len(record.centers)} centers; {sent}.")
    else:
        typer.echo(f"{out}: {len(record.centers)} centers; {sent}.")
    for notice in record.notices:
        typer.echo(notice.text)
    if index is not None:
        typer.echo(
            f"C-index on the held-out patients: {index:.3f} (true times, mean of slides)."
        )
    without = len(cohorts.patients_without_slide)
    if without:
        typer.echo(f"{without:,} patient(s) have no slide that can be used, and are left out.")
    if cohorts.failures:
        for slide_id, reason in cohorts.failures.items():
            typer.echo(f"{slide_id}: left out. {reason}", err=True)
        raise typer.Exit(1)
