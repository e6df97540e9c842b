"""One training of a network, start to end: agree on time and scale, train, fit the baseline."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import fedcox.errors as errors
from fedcox.engines.in_process import InProcess
from fedcox.federation.digest import digest
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import epsilon_against_other_centers, epsilon_of
from fedcox.solvers.fewest_centers import fewest_centers
from fedcox.solvers.network_baseline import refitted_baseline, rescaled_baseline
from fedcox.solvers.network_solver import NetworkProblem, NetworkSolution, NetworkWatcher
from fedcox.solvers.newton import Newton
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.study.agreement import Agreement, agree
from fedcox.study.fitted import Guarantee, Notice
from fedcox.study.network_checkpoint import NetworkCheckpoint, digest_of_slides
from fedcox.study.network_plan import NetworkPlan
from fedcox.study.notices import large_delta, lost_centers
from fedcox.study.plan import Plan
from fedcox.study.trained_network import TrainedNetwork, TrainingRecord
from fedcox.study.versions import versions
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS, AbstractLink, WeightedEvents
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

#: Where α starts under noise, a public guess: half of all have the event before the horizon.
_SURVIVING = 0.5
#: A declared range is taken as four standard deviations wide, as in a study file.
_DEVIATIONS = 4.0
#: Noise in a log risk that is as much as an effect of a ratio of 1.35 is worth a warning.
_MUCH_NOISE = 0.3
#: Columns as messages name them, more than any table has.
_COLUMNS = tuple(f"column {number}" for number in range(1, 16_385))


@dataclass(frozen=True, eq=False)
class _Agreed:
    """What the centers agreed on, and the counts it came from, where they may be known."""

    setting: NetworkSetting
    alpha: FloatArray  # (fitted intervals,) where training starts
    agreement: Agreement | None


def train_network(
    plan: NetworkPlan,
    federation: Federation,
    watch: NetworkWatcher = lambda step: None,
    *,
    checkpoint: str | Path | None = None,
    features: str | None = None,
) -> TrainedNetwork:
    """Train a network over a federation.

    `watch` is called with every step and every epoch. With `checkpoint` the training is kept
    in that file after every epoch, and goes on from there, to the same bits, when it is run
    again; `features` is a digest of the patients' slides, of which it must be the checkpoint,
    and is taken from the slides themselves where the centers are in this process. Under noise
    centers of this process get a way to add it, if they have none.
    """
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
        kept = _checkpoint(plan, problem, features, Path(checkpoint))
    solution = plan.solver.minimise(federation, problem, watch, kept)
    alpha, slope = solution.alpha, 1.0
    if private is None:
        alpha, slope = _without_weights(federation, agreed, solution)
    told = _notices(plan, federation, begun)
    _warn(told)
    ledger = federation.ledger.since(mark)
    counts = None if agreed.agreement is None else agreed.agreement.counts
    return TrainedNetwork(
        setting=agreed.setting,
        theta=solution.theta,
        alpha=_whole_baseline(agreed, alpha),
        slope=slope,
        record=TrainingRecord(
            centers=federation.names,
            patients=None if counts is None else counts.patients,
            events=None if counts is None else int(counts.events.sum()),
            epochs=solution.epochs,
            best=solution.best,
            rounds=federation.ledger.rounds - mark[0],
            bytes_up=sum(row.bytes_up for row in ledger),
            bytes_down=sum(row.bytes_down for row in ledger),
            guarantee=None if private is None else _guarantee(private, federation),
            notices=told,
            versions=versions(),
            ledger=ledger,
        ),
    )


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


def _agreed(plan: NetworkPlan, federation: Federation) -> _Agreed:
    """Ask for the grid, the scale and the counts."""
    agreement = agree(_agreement_plan(plan), federation)
    timing, at_risk, events = agreement.setting, agreement.at_risk, agreement.events
    weight = 1.0
    if plan.weighs_events:
        weight = float((at_risk - events).sum() / events.sum())
    setting = _setting(plan, timing, weight)
    # The hazards that weighted counts of events give.
    alpha = WeightedEvents(timing.link, weight).intercept(events / at_risk)
    return _Agreed(setting, alpha, agreement)


def _agreement_plan(plan: NetworkPlan) -> Plan:
    """As for coefficients, but no column goes because others add up to it."""
    return Plan(
        columns=_COLUMNS,
        link=LINKS[plan.link],
        reading=plan.reading,
        width=plan.width,
        horizon=plan.horizon,
        ridge=1.0,
        solver=Newton(),  # not asked: only what comes before it is agreed on here
        pieces=plan.pieces,
        few_pieces=True,
    )


def _public(plan: NetworkPlan) -> _Agreed:
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
    setting = _setting(plan, Setting(grid, active, plan.reading, link, scaling), 1.0)
    hazard = np.full(grid.intervals, 1.0 - _SURVIVING ** (1.0 / grid.intervals))
    return _Agreed(setting, link.intercept(hazard), None)


def _setting(plan: NetworkPlan, timing: Setting, weight: float) -> NetworkSetting:
    return NetworkSetting(
        timing,
        plan.architecture,
        weight,
        plan.slide_weight,
        plan.precision,
        _device=plan.device,
    )


def _problem(plan: NetworkPlan, agreed: _Agreed) -> NetworkProblem:
    counts = None if agreed.agreement is None else agreed.agreement.counts
    setting, private = agreed.setting, plan.private
    patients = private.patients if private is not None else 0
    cells = None
    if counts is not None:
        patients = counts.patients
        rows = counts.cells(grouped=setting.timing.link.grouped)
        cells = float(rows[setting.timing.active].sum())
    return NetworkProblem(
        setting, setting.started(plan.seed), agreed.alpha, patients, cells, plan.seed
    )


def _checkpoint(
    plan: NetworkPlan, problem: NetworkProblem, features: str | None, path: Path
) -> NetworkCheckpoint:
    # Where it starts says which module it is, and the setting whose patients, but for slides.
    start = problem.theta, problem.alpha
    parts = plan, problem.setting, *start, problem.patients, features
    mark = digest((*parts, versions()["fedcox"]), without=("device",))
    return NetworkCheckpoint(path, mark.hex())


def _without_weights(
    federation: Federation, agreed: _Agreed, solution: NetworkSolution
) -> tuple[FloatArray, float]:
    """The baseline and the factor of risks that curves are drawn by."""
    setting = agreed.setting
    if setting.event_weight == 1.0:
        return refitted_baseline(federation, setting, solution.theta, solution.alpha), 1.0
    # Weighted hazards are about so many times those of all patients together.
    start = agreed.alpha - math.log(setting.event_weight)
    return rescaled_baseline(federation, setting, solution.theta, start)


def _whole_baseline(agreed: _Agreed, alpha: FloatArray) -> FloatArray:
    """One number per interval of the grid: hazard 0 without an event, 1 with events only."""
    active = agreed.setting.timing.active
    whole = np.full(active.size, -np.inf)
    if agreed.agreement is not None:
        counts = agreed.agreement.counts
        whole[(counts.events > 0) & ~active] = np.inf
    whole[active] = alpha
    return whole


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
    told = lost_centers(lost, done_again=False)
    private = plan.private
    if private is not None:
        release = private.release(fewest_centers(federation))
        noise = private.noise_in_log_risk(release, centers=len(begun))
        told += large_delta(private.delta, private.patients)
        told += _much_noise(noise)
    return tuple(told)


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


def _warn(told: Sequence[Notice]) -> None:
    for notice in told:
        warnings.warn(getattr(errors, notice.name)(notice.text), stacklevel=3)
