"""Every attack of an audit, by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.forged_grid import (
    coarse_setting,
    forged_setting,
    probe_on_grid,
)
from fedcox.evaluation.attacks.gradient_inversion import SMALL_CENTER, invert_small_center
from fedcox.evaluation.attacks.half_space import Reach, probe_outermost
from fedcox.evaluation.attacks.level_combinations import level_columns, probe_combinations
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import Observer
from fedcox.evaluation.attacks.one_hot_alpha import probe_risk_sets
from fedcox.evaluation.attacks.overlapping_batches import take_batches_apart, within_reach
from fedcox.evaluation.attacks.rare_columns import read_rare_columns
from fedcox.evaluation.attacks.scene import Attack, Scene
from fedcox.evaluation.attacks.single_patient_batch import (
    ask_for_single_patients,
    read_batches,
)
from fedcox.evaluation.attacks.tail_peeling import peel_tail
from fedcox.evaluation.attacks.telescoping import (
    ask_for_block,
    telescope_blocks,
    telescope_risk_sets,
)
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.risk_set_sums import EventSumsAt, RiskSetSetting, RiskSetSumsAt
from fedcox.federation.setting import Setting
from fedcox.survival.derivatives import Detail
from fedcox.survival.time_grid import TimeGrid

_BATCHES = 50  # of one patient, asked for
_MOST_BATCHES = 400  # that overlap
_FINEST = 4  # intervals of a finer grid for each patient
_MOST_INTERVALS = 20_000
_SECOND_BETA = 0.1


def _begun(scene: Scene, setting: Setting) -> tuple[Observer, Setting]:
    """The study anew."""
    return scene.observer(), setting


def _risk_sets(scene: Scene) -> Iterator[Candidate]:
    """WebDISCO in its first two rounds."""
    observer, scaling = scene.observer(), scene.setting.scaling
    times = reduce(np.union1d, observer.replies(EventTimes()).values())
    agreed = RiskSetSetting(scaling, times)
    events = observer.replies(EventSumsAt(times, np.zeros(1)))
    first = observer.replies(
        RiskSetSumsAt(agreed, np.zeros(scaling.keep.size), Detail.GRADIENT)
    )
    beta = np.full(scaling.keep.size, _SECOND_BETA)
    second = observer.replies(RiskSetSumsAt(agreed, beta, Detail.GRADIENT))
    for name, sums in first.items():
        counted = np.rint(events[name].events).astype(np.int64)
        table = LifeTable(scene.sizes[name], sums.total, counted)
        for claim in telescope_risk_sets(sums, table, second[name], beta):
            yield Candidate(claim.covariates)  # intervals here are event times


def _blocks_of_the_fit(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from telescope_blocks(source)


def _block_without_effects(scene: Scene) -> Iterator[Candidate]:
    for source in ask_for_block(*_begun(scene, scene.setting), scene.tables).values():
        yield from telescope_blocks(source)


def _tail(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from peel_tail(source, scene.rng())


def _small_centers(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from invert_small_center(source, scene.rng())


def _in_sums(scene: Scene) -> int:
    return scene.patients if scene.sources else 0


def _in_blocks(scene: Scene) -> int:
    sent = any(source.looks.crossed.size for source in scene.sources.values())
    return scene.patients if sent else 0


def _in_batches(scene: Scene) -> int:
    return scene.patients if any(each.query.batched for each in scene.exchanges) else 0


def _in_small_centers(scene: Scene) -> int:
    sizes = [scene.sizes[name] for name in scene.sources]
    return sum(size for size in sizes if size <= SMALL_CENTER)


def _batches_of_the_fit(scene: Scene) -> Iterator[Candidate]:
    yield from read_batches(scene.exchanges, scene.sizes)


def _rare_columns(scene: Scene) -> Iterator[Candidate]:
    yield from read_rare_columns(scene.exchanges, scene.setting)


def _batches_of_one(scene: Scene) -> Iterator[Candidate]:
    alpha = np.full(scene.setting.intervals, -2.0)
    yield from ask_for_single_patients(
        *_begun(scene, scene.setting), scene.sizes, alpha, _BATCHES
    )


def _one_hot(scene: Scene) -> Iterator[Candidate]:
    found = probe_risk_sets(*_begun(scene, scene.setting), scene.tables)
    for claims in found.values():
        yield from claims


def _finer_grid(scene: Scene) -> Iterator[Candidate]:
    horizon = scene.own_grid.horizon
    intervals = min(_FINEST * scene.patients, _MOST_INTERVALS)
    finer = TimeGrid.regular(horizon / intervals, horizon)
    yield from probe_on_grid(scene.observer(), forged_setting(scene.setting, finer))


def _not_joined(scene: Scene) -> Iterator[Candidate]:
    yield from probe_on_grid(scene.observer(), forged_setting(scene.setting, scene.own_grid))


def _overlapping_batches(scene: Scene) -> Iterator[Candidate]:
    yield from take_batches_apart(
        scene.observer(), scene.setting, scene.sizes, _batches_allowed(scene)
    )


def _batches_allowed(scene: Scene) -> int:
    return int(min(scene.reach.rounds, _MOST_BATCHES))


def _in_reach_of_batches(scene: Scene) -> int:
    return sum(scene.sizes[name] for name in within_reach(scene.sizes, _batches_allowed(scene)))


def _half_space(scene: Scene, intervals: int, reach: Reach) -> Iterator[Candidate]:
    directions = 10 if len(scene.tables) <= 5 else 2
    begun = _begun(scene, coarse_setting(scene.setting, intervals))
    yield from probe_outermost(*begun, list(scene.tables), directions, reach)


def _combinations(scene: Scene) -> Iterator[Candidate]:
    yield from probe_combinations(*_begun(scene, scene.setting), scene.rng())


def _with_levels(scene: Scene) -> int:
    return scene.patients if level_columns(scene.setting).size else 0


ATTACKS: tuple[Attack, ...] = (
    Attack("risk-set sums, as WebDISCO sends them", True, _risk_sets),
    Attack("time × covariate blocks of the fit", False, _blocks_of_the_fit, _in_blocks),
    Attack("peeling the tail of the fit", False, _tail, _in_sums),
    Attack("solving for a small center", False, _small_centers, _in_small_centers),
    Attack("batches of the fit", False, _batches_of_the_fit, _in_batches),
    Attack("products with a rare column", False, _rare_columns),
    Attack(
        "batches of one patient",
        True,
        _batches_of_one,
        lambda scene: min(_BATCHES, scene.patients),
    ),
    Attack("a block without effects", True, _block_without_effects),
    Attack("one-hot alpha", True, _one_hot),
    Attack("intervals not joined", True, _not_joined),
    Attack("a finer grid", True, _finer_grid),
    Attack("overlapping batches", True, _overlapping_batches, _in_reach_of_batches),
    Attack("half-space probe", True, lambda scene: _half_space(scene, 1, Reach())),
    Attack(
        "half-space probe inside the limits",
        True,
        lambda scene: _half_space(scene, 1, scene.reach),
    ),
    Attack(
        "half-space probe behind a screen",
        True,
        lambda scene: _half_space(scene, 2, scene.reach),
    ),
    Attack("combinations of levels", True, _combinations, _with_levels),
)
