"""A training on slides: its files and network, how it ranks those held out, what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.federation.batch import HeldOut
from fedcox.federation.query import Federation
from fedcox.files.writing import check_folder, whole_folder, write_json
from fedcox.models.architecture import TileScorer
from fedcox.models.predictors.network import NetworkLink, Precision, SlideWeight
from fedcox.reports.number_text import finite
from fedcox.reports.privacy_ledger import write_ledger
from fedcox.slides.cohorts import SlideCohorts, slide_cohorts
from fedcox.slides.feature_files import OpenedBag
from fedcox.slides.manifest import OutcomeColumns, PatientTable, SlideManifest
from fedcox.slides.model import NETWORK
from fedcox.slides.simulated_slides import is_simulated
from fedcox.slides.tile_scores import ScoreScale
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.training import AbstractTrainer, TrainingWatcher
from fedcox.study.fit_rows import Notice
from fedcox.study.plan import NetworkPlan
from fedcox.study.trained_network import TrainedNetwork, TrainingRecord
from fedcox.study.training import threads_for, train_network, with_noise
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index

FILES = (NETWORK, "training.json", "ledger.jsonl")


@dataclass(frozen=True)
class SlideNetworkChoice:
    """The options of `fedcox slides train` about the tile scorer, time and weights.

    `balanced` None is yes, but not under noise, where nobody counts events. `precision` None is
    what a device is quick with: half precision for products over tiles on a GPU, else single.
    """

    hidden: int
    width: float | None
    horizon: float | None
    link: NetworkLink
    balanced: bool | None
    slide_weight: SlideWeight
    device: str
    precision: Precision | None
    seed: int

    def plan(self, features: int, solver: AbstractTrainer) -> NetworkPlan:
        """The training of tiles with so many `features`."""
        private = isinstance(solver, PrivateNetwork)
        return NetworkPlan(
            TileScorer(features, self.hidden),
            self.width,
            self.horizon,
            self.link,
            balanced=not private if self.balanced is None else self.balanced,
            slide_weight=self.slide_weight,
            solver=solver,
            precision=self.precision or ("float32" if self.device == "cpu" else "bfloat16"),
            device=self.device,
            seed=self.seed,
        )


@dataclass(frozen=True)
class TrainingFiles:
    """`manifest` names the slides, `patients` has outcomes, `features` is a folder."""

    manifest: Path
    patients: Path
    features: Path
    columns: OutcomeColumns

    @property
    def simulated(self) -> bool:
        """Whether the slides are simulated."""
        return is_simulated(self.manifest)

    def cohorts(self) -> SlideCohorts:
        """The patients of every center, and who is left out."""
        listed = SlideManifest.read(self.manifest)
        patients = PatientTable.read(self.patients, self.columns)
        return slide_cohorts(listed, patients, self.features)


_REDUCED = Notice(
    "NoiseWarning",
    "The guarantee is for the training. The features were reduced by a map that was fitted "
    "without noise: patients whose slides it was fitted on are not covered by epsilon. Take a "
    "reducer that was fitted on others (`fedcox slides reduce --reducer`), or features as the "
    "encoder gives them.",
)


@dataclass(frozen=True, eq=False)
class SlideTraining:
    """A trained network and the slides behind it.

    `held_out_index` is the c-index of the patients it was not trained on, if there are any.
    """

    network: TrainedNetwork
    cohorts: SlideCohorts
    held_out_index: float | None = None

    @property
    def private(self) -> bool:
        """Whether nothing may be told of the patients but under noise."""
        record = self.network.record
        return record is None or record.guarantee is not None


def train_on_slides(
    plan: NetworkPlan,
    cohorts: SlideCohorts,
    watch: TrainingWatcher,
    *,
    validation: float,
    secure_sums: bool,
    checkpoint: Path | None,
) -> SlideTraining:
    """Train over centers in this process; `validation` is the share that the solver holds out.

    With `secure_sums` only sums over centers are seen, under masks.
    """
    centers = {name: cohort for name, cohort in cohorts.cohorts.items() if cohort.patients}
    federation = InProcess.from_cohorts(centers)
    asked: Federation = federation
    if secure_sums:
        from fedcox.engines.masked import Masked

        inside = federation if plan.private is None else with_noise(plan, federation)
        asked = Masked.around(inside, study="slides")
    with threads_for(centers.values()):
        trained = train_network(
            plan, asked, watch, checkpoint=checkpoint, features=cohorts.opened.digest
        )
    record = trained.record
    if plan.private is not None and cohorts.opened.reducer_sha256 and record is not None:
        notices = *record.notices, _REDUCED
        trained = replace(trained, record=replace(record, notices=notices))
    index = None
    if validation:
        index = _held_out_index(trained, federation, plan.seed, validation)
    return SlideTraining(trained, cohorts, index)


def _held_out_index(
    trained: TrainedNetwork, federation: InProcess, seed: int, share: float
) -> float | None:
    """On true times; all patients are in this process, so nothing is sent for it."""
    everybody = Cohort.joined([center.cohort for center in federation.centers])
    held = HeldOut(seed, share, everybody.patients).numbers()
    tested = everybody.take(np.isin(everybody.number, held))
    return concordance_index(tested.time, tested.event, trained.risk(tested)).index


def with_facts(
    training: SlideTraining,
    *,
    simulated: bool,
    each: Callable[[Iterable[OpenedBag]], Iterable[OpenedBag]],
) -> SlideTraining:
    """With what heatmaps and predictions must know: the features, and the scale of tile scores.

    `each` gives back the bags it is given, and may tell how far it is.
    """
    opened = training.cohorts.opened
    facts: dict[str, Any] = {
        "encoder": opened.encoder,
        "encoder_sha256": opened.encoder_sha256,
        "reducer_sha256": opened.reducer_sha256,
        "simulated": simulated,
    }
    if not training.private:
        scale = _scale(training.network, each(opened.bags.values()))
        facts |= {"tile_score_centre": scale.centre, "tile_score_reach": scale.reach}
    return replace(training, network=training.network.with_facts(**facts))


def _scale(trained: TrainedNetwork, bags: Iterable[OpenedBag]) -> ScoreScale:
    from fedcox.models.tile_scorer import tile_scores

    architecture: Any = trained.architecture
    return ScoreScale.of(
        trained.slope * tile_scores(bag.features.read(), architecture, trained.theta)
        for bag in bags
    )


def training_lines(training: SlideTraining, folder: Path) -> Iterator[str]:
    """Counts and traffic, and what to know; `folder` is where it lies."""
    record = training.network.record
    if record is None:
        return
    sent = f"{record.rounds:,} rounds, {record.bytes_up / 1e6:,.1f} MB sent by all centers"
    counts = ""
    if record.patients is not None:
        counts = f"{record.patients:,} patients, {record.events:,} events, "
    yield f"{folder}: {counts}{len(record.centers)} centers; {sent}."
    for notice in record.notices:
        yield notice.text
    index = training.held_out_index
    if index is not None:
        yield (
            f"C-index on the held-out patients: {index:.3f} (true times, mean of slides). They "
            "also chose the epoch that is kept, so new patients may be ranked less well."
        )


def check_model_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, before any work is done."""
    check_folder(
        folder,
        overwrite=overwrite,
        is_ours=lambda path: path.name in FILES and path.is_file(),
        what="model",
    )


def write_model(
    training: SlideTraining, folder: str | Path, command: str, *, overwrite: bool
) -> None:
    """Write the whole folder or nothing of it; `command` is what was typed."""
    network, record = training.network, training.network.record
    if record is None:
        raise InputError("Only a network that has just been trained has a training to tell.")
    check_model_folder(folder, overwrite=overwrite)
    account = {"command": command, **_account(training, record)}
    with whole_folder(folder) as part:
        network.save(part / NETWORK)
        write_json(part / "training.json", account)
        write_ledger(record.ledger, part / "ledger.jsonl")


def _account(training: SlideTraining, record: TrainingRecord) -> dict[str, Any]:
    network, cohorts = training.network, training.cohorts
    return {
        "simulated": network.facts["simulated"],
        # Counts of patients and slides would undo what the noise is for.
        "slides": None if training.private else len(cohorts.opened.bags),
        "slides_left_out": None if training.private else dict(cohorts.failures),
        "validation_c_index": training.held_out_index,
        "features": dict(network.facts),
        "centers": list(record.centers),
        "patients": record.patients,
        "events": record.events,
        "link": network.link,
        "intervals": [finite(edge) for edge in network.edges.tolist()],
        "baseline": [finite(value) for value in network.alpha.tolist()],
        "epochs": [
            {
                **asdict(epoch),
                "loss": finite(epoch.loss),
                "validation": finite(epoch.validation),
            }
            for epoch in record.epochs
        ],
        "best_epoch": record.best,
        "rounds": record.rounds,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "guarantee": None if record.guarantee is None else asdict(record.guarantee),
        "notices": [asdict(notice) for notice in record.notices],
        "versions": dict(record.versions),
    }
