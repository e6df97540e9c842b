"""One training on slides: the network, how it ranks those held out, and what its file tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import HeldOut
from fedcox.federation.query import Federation
from fedcox.slides.cohorts import SlideCohorts
from fedcox.slides.model import feature_facts
from fedcox.slides.opened_bag import OpenedBag
from fedcox.slides.tile_scores import ScoreScale
from fedcox.solvers.training import TrainingWatcher
from fedcox.study.fit_rows import Notice
from fedcox.study.plan import NetworkPlan
from fedcox.study.trained_network import TrainedNetwork
from fedcox.study.training import threads_for, train_network, with_noise
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index

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
    centers = {name: own for name, own in cohorts.cohorts.items() if own.patients}
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
    if plan.private is not None and cohorts.opened.reducer_sha256:
        trained = _with_notice(trained, _REDUCED)
    index = None
    if validation:
        index = _held_out_index(trained, federation, plan.seed, validation)
    return SlideTraining(trained, cohorts, index)


def _with_notice(trained: TrainedNetwork, notice: Notice) -> TrainedNetwork:
    record = trained.record
    if record is None:
        return trained
    return replace(trained, record=replace(record, notices=(*record.notices, notice)))


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
    told: dict[str, Any] = {**feature_facts(opened), "simulated": simulated}
    if not training.private:
        scale = _scale(training.network, each(opened.bags.values()))
        told |= {"tile_score_centre": scale.centre, "tile_score_reach": scale.reach}
    return replace(training, network=training.network.with_facts(**told))


def _scale(trained: TrainedNetwork, bags: Iterable[OpenedBag]) -> ScoreScale:
    from fedcox.models.tile_scorer import tile_scores

    architecture: Any = trained.architecture
    return ScoreScale.of(
        trained.slope * tile_scores(bag.features.read(), architecture, trained.theta)
        for bag in bags
    )
