"""One training of a network, start to end: agree on time and scale, train, fit the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

import fedcox.errors as errors
from fedcox.engines.in_process import InProcess
from fedcox.federation.digest import digest
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.models.architecture import check_torch
from fedcox.models.predictors.network import Network, network_of
from fedcox.privacy.accountant import epsilon_against_other_centers, epsilon_of
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.network_baseline import refitted_baseline, rescaled_baseline
from fedcox.solvers.private_network import PrivateNetwork, fewest_centers
from fedcox.solvers.solver import Problem
from fedcox.solvers.training import TrainingEnd, TrainingWatcher
from fedcox.study.agreement import Agreement, agree
from fedcox.study.fit_rows import Guarantee, Notice, versions
from fedcox.study.notices import large_delta, lost_centers, warn_of
from fedcox.study.plan import NetworkPlan
from fedcox.study.trained_network import TrainedNetwork, TrainingRecord
from fedcox.study.training_checkpoint import TrainingCheckpoint, digest_of_slides
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid
from fedcox.survival.weighted_events import WeightedEvents

#: Where α starts under noise, a public guess: half of all have the event before the horizon.
_SURVIVING = 0.5
#: A declared range is taken as four standard deviations wide, as in a study file.
_DEVIATIONS = 4.0
#: Noise in a log risk that is as much as an effect of a ratio of 1.35 is worth a warning.
_MUCH_NOISE = 0.3


#: Mean tiles of a slide from which on threads pay. Below, they wait for each other longer than
#: they work: 40 times as long where other programs use the cores too.
_LARGE = 2000


@dataclass(frozen=True, eq=False)
class _AgreedTraining:
    """What the centers agreed on, and the counts it came from, where they may be known."""

    setting: Setting
    alpha: FloatArray  # (fitted intervals,) where training starts
    agreement: Agreement | None


def train_network(
    plan: NetworkPlan,
    federation: Federation,
    watch: TrainingWatcher | None = None,
    *,
    checkpoint: str | Path | None = None,
    features: str | None = None,
) -> TrainedNetwork:
    """Train a network as the risk φ, over a federation of centers; no patient leaves one.

        λ(t | x) = λ_k · exp(φ(x))        for t in piece k of time

    plan        network, time and solver (`fedcox.NetworkPlan`)
    federation  whom to ask, such as `fedcox.InProcess`. Under noise centers of this process get
                a way to add it, if they have none
    watch       is called with every step and every epoch, each with its `loss`
    checkpoint  a file that keeps the training after every epoch; the same call goes on from
                there, to the same bits
    features    a digest of the patients' slides, of which it must be the checkpoint; taken from
                the slides themselves where the centers are in this process

    Returns a `fedcox.TrainedNetwork`. Here the risk is the square of one of two numbers, which
    no coefficient could tell:

    >>> import numpy as np
    >>> import fedcox
    >>> def center(patients, rng=np.random.default_rng(1)):
    ...     x = rng.normal(size=(patients, 2))
    ...     days = rng.exponential(300 * np.exp(-(x[:, 0] ** 2)))
    ...     return fedcox.Cohort(x, np.minimum(days, 400), days <= 400)
    >>> federation = fedcox.InProcess.from_cohorts({"A": center(200), "B": center(100)})
    >>> solver = fedcox.NetworkAdam(epochs=10, learning_rate=0.01)
    >>> plan = fedcox.NetworkPlan(fedcox.Perceptron(2, (8,)), solver=solver)
    >>> trained = fedcox.train_network(plan, federation)
    >>> others = center(200)
    >>> fedcox.concordance_index(others.time, others.event, trained.risk(others)).index > 0.55
    True

    Next: `trained.survival(others, times=[100, 200])`, `trained.save("network.safetensors")`.
    """
    watch = watch or (lambda step: None)
    private = plan.private
    if private is not None and federation.centers:
        federation = with_noise(plan, federation)
    mark, begun = federation.ledger.mark(), federation.names
    agreed = _public(plan) if private is not None else _agreed(plan, federation)
    problem = _problem(plan, agreed)
    kept = None
    if checkpoint is not None:
        if features is None and federation.centers:
            features = digest_of_slides(federation.centers)
        kept = _checkpoint(plan, agreed.setting, problem, features, Path(checkpoint))
    solution = plan.solver.train(federation, problem, watch, kept)
    alpha, slope = solution.alpha, 1.0
    if private is None:
        alpha, slope = _without_weights(federation, agreed, solution)
    record = _record(plan, federation, agreed, solution, mark, begun)
    warn_of(record.notices)
    whole = _whole_baseline(agreed, alpha)
    return TrainedNetwork(agreed.setting, solution.beta, whole, slope, record)


def with_noise(plan: NetworkPlan, federation: Federation) -> InProcess:
    """The same centers, each with a way to add noise; those that have one keep it.

    For sums under masks as well, put the masks around what this gives back.
    """
    private = plan.private
    if private is None:
        raise errors.InputError("This training is without noise; its solver asks for none.")
    study = digest(plan, without=("device",)).hex()
    centers = [
        center
        if center.noise is not None
        else replace(center, noise=NoisedReplies(study, private.delta))
        for center in federation.centers
    ]
    return InProcess(centers)


def _agreed(plan: NetworkPlan, federation: Federation) -> _AgreedTraining:
    """Ask for the grid, the scale and the counts."""
    agreement = agree(plan.before_training, federation)
    at_risk, events = agreement.at_risk, agreement.events
    weight = 1.0
    if plan.weighs_events:
        weight = float((at_risk - events).sum() / events.sum())
    setting = _with_network(plan, agreement.setting, weight)
    # The hazards that weighted counts of events give.
    alpha = WeightedEvents(setting.link, weight).intercept(events / at_risk)
    return _AgreedTraining(setting, alpha, agreement)


def _public(plan: NetworkPlan) -> _AgreedTraining:
    """Grid, scale and start that the plan alone gives, so that no patient is asked."""
    if plan.horizon is None or plan.width is None:
        raise ValueError("A plan under noise has a width and a horizon.")
    grid: AnyGrid = TimeGrid.regular(plan.width, plan.horizon)
    if not LINKS[plan.link].grouped:
        grid = Pieces(np.append(0.0, grid.edges))
    active = np.ones(grid.intervals, dtype=np.bool_)
    ranges = np.array(plan.ranges or (), dtype=np.float64).reshape(-1, 2)
    spread = (ranges[:, 1] - ranges[:, 0]) / _DEVIATIONS
    scaling = Scaling(np.arange(len(ranges)), ranges.mean(axis=1), spread)
    link: AbstractLink = LINKS[plan.link]
    setting = _with_network(plan, Setting(grid, active, plan.reading, link, scaling), 1.0)
    hazard = np.full(grid.intervals, 1.0 - _SURVIVING ** (1.0 / grid.intervals))
    return _AgreedTraining(setting, link.intercept(hazard), None)


def _with_network(plan: NetworkPlan, setting: Setting, weight: float) -> Setting:
    """The same time and scale, and the plan's network on them."""
    network = Network(
        plan.architecture, weight, plan.slide_weight, plan.precision, _device=plan.device
    )
    return setting.with_predictor(network)


def _problem(plan: NetworkPlan, agreed: _AgreedTraining) -> Problem:
    setting, private = agreed.setting, plan.private
    weights, events, cells = setting.start(plan.seed), math.nan, None
    patients = private.patients if private is not None else 0
    if agreed.agreement is not None:
        counts = agreed.agreement.counts
        patients, events = counts.patients, float(agreed.agreement.events.sum())
        cells = float(counts.cells(grouped=setting.link.grouped)[setting.active].sum())
    return Problem(
        DiscreteTimeLoss(setting),
        agreed.alpha,
        weights,
        np.zeros(weights.size),
        patients,
        events,
        cells=cells,
        seed=plan.seed,
    )


def _checkpoint(
    plan: NetworkPlan,
    setting: Setting,
    problem: Problem,
    features: str | None,
    path: Path,
) -> TrainingCheckpoint:
    # Where it starts says which module it is, and the setting whose patients, but for slides.
    start = problem.beta, problem.alpha
    parts = plan, setting, *start, problem.patients, features
    mark = digest((*parts, versions()["fedcox"]), without=("device",))
    return TrainingCheckpoint(path, mark.hex())


def _without_weights(
    federation: Federation, agreed: _AgreedTraining, solution: TrainingEnd
) -> tuple[FloatArray, float]:
    """The baseline and the factor of risks that curves are drawn by."""
    setting = agreed.setting
    weight = network_of(setting.predictor).event_weight
    if weight == 1.0:
        return refitted_baseline(federation, setting, solution.alpha, solution.beta), 1.0
    # Weighted hazards are about so many times those of all patients together.
    start = agreed.alpha - math.log(weight)
    return rescaled_baseline(federation, setting, start, solution.beta)


def _whole_baseline(agreed: _AgreedTraining, alpha: FloatArray) -> FloatArray:
    """One number per interval of the grid: hazard 0 without an event, 1 with events only."""
    active = agreed.setting.active
    whole = np.full(active.size, -np.inf)
    if agreed.agreement is not None:
        counts = agreed.agreement.counts
        whole[(counts.events > 0) & ~active] = np.inf
    whole[active] = alpha
    return whole


def _record(
    plan: NetworkPlan,
    federation: Federation,
    agreed: _AgreedTraining,
    solution: TrainingEnd,
    mark: tuple[int, int],
    begun: Sequence[str],
) -> TrainingRecord:
    """How the training went, from this mark of the ledger on, with the centers of then."""
    ledger, private = federation.ledger.since(mark), plan.private
    counts = None if agreed.agreement is None else agreed.agreement.counts
    return TrainingRecord(
        centers=federation.names,
        patients=None if counts is None else counts.patients,
        events=None if counts is None else int(counts.events.sum()),
        epochs=solution.epochs,
        best=solution.best,
        rounds=federation.ledger.rounds - mark[0],
        bytes_up=sum(row.bytes_up for row in ledger),
        bytes_down=sum(row.bytes_down for row in ledger),
        guarantee=None if private is None else _guarantee(private, federation),
        notices=_notices(plan, federation, begun),
        versions=versions(),
        ledger=ledger,
    )


def _guarantee(private: PrivateNetwork, federation: Federation) -> Guarantee:
    release = private.release(fewest_centers(federation))
    masked = not federation.shows_centers
    against = epsilon_against_other_centers(release, private.delta) if masked else None
    return Guarantee(
        epsilon=epsilon_of(release, private.delta),
        delta=private.delta,
        releases=release.releases,
        noise=release.noise_multiplier,
        sampling_rate=release.sampling_rate,
        masked=masked,
        epsilon_against_centers=against,
    )


def _notices(
    plan: NetworkPlan, federation: Federation, begun: Sequence[str]
) -> tuple[Notice, ...]:
    lost = [name for name in begun if name not in federation.names]
    notes = lost_centers(lost, done_again=False)
    private = plan.private
    if private is not None:
        release = private.release(fewest_centers(federation))
        noise = private.noise_in_log_risk(release, centers=len(begun))
        notes += large_delta(private.delta, private.patients)
        notes += _much_noise(noise)
    return tuple(notes)


def _much_noise(noise: float) -> list[Notice]:
    if noise < _MUCH_NOISE:
        return []
    return [
        Notice(
            "NoiseWarning",
            f"Much noise: a usual patient's log risk is off by about {noise:.2g}, up or down, "
            "by the noise for privacy alone. Much of what the network learnt can be noise. "
            "Allow a larger epsilon, plan with more patients, or take shorter or fewer steps. "
            "This follows from the plan's public numbers; no patient was asked.",
        )
    ]


@contextmanager
def threads_for(cohorts: Iterable[Cohort], large: int | None = None) -> Iterator[None]:
    """As many threads as these slides are worth, until the end of the block.

    For large slides `large` of them, or as many as torch has taken.
    """
    check_torch()
    import torch

    bags = [cohort.bags for cohort in cohorts if cohort.bags is not None]
    tiles = [slide.shape[0] for own in bags for slides in own.slides for slide in slides]
    before = torch.get_num_threads()
    is_large = bool(tiles) and fmean(tiles) >= _LARGE
    torch.set_num_threads((large or before) if is_large else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
