"""A coordinator who asks what no honest study asks."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.evaluation.attacks.candidate import Candidate, Patients, matches
from fedcox.evaluation.attacks.forged_grid import (
    coarse_setting,
    forged_setting,
    probe_on_grid,
)
from fedcox.evaluation.attacks.half_space import Reach, probe_outermost
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import ALL_CENTERS, Observer
from fedcox.evaluation.attacks.one_hot_alpha import probe_risk_sets
from fedcox.evaluation.attacks.overlapping_batches import take_batches_apart
from fedcox.evaluation.attacks.single_patient_batch import ask_for_single_patients
from fedcox.evaluation.attacks.telescoping import ask_for_block, telescope_blocks
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.newton import Newton
from fedcox.survival.time_grid import TimeGrid
from tests.evaluation.attacks.invented_studies import (
    Cohorts,
    in_the_open,
    life_tables,
    plan,
    recorded,
    sparse_tail,
    under_masks,
)
from tests.problems import LINK_NAMES

SEEN = ("every center", "only sums")


def prepared(
    link: str, seen: str, intervals: int = 20, patients: int = 150
) -> tuple[Cohorts, Federation, Setting, Patients, dict[str, LifeTable]]:
    cohorts = sparse_tail(patients, 4, seed=5, centers=3)
    federation = in_the_open(cohorts) if seen == "every center" else under_masks(cohorts)
    chosen = plan(cohorts, Newton(), intervals, link)
    _, setting, truth = recorded(chosen, cohorts, federation)
    tables = life_tables(cohorts, setting, apart=federation.shows_centers)
    assert set(tables) == ({ALL_CENTERS} if seen == "only sums" else set(cohorts))
    return cohorts, federation, setting, truth, tables


def sizes(tables: dict[str, LifeTable]) -> dict[str, int]:
    return {name: table.patients for name, table in tables.items()}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("link", LINK_NAMES)
def test_batches_of_one_give_a_patient_each(link: str, seen: str) -> None:
    _, federation, setting, truth, tables = prepared(link, seen)
    alpha = np.full(setting.intervals, -2.0)
    claims = ask_for_single_patients(Observer(federation), setting, sizes(tables), alpha, 20)
    assert 15 <= matches(claims, truth).size == len(claims)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("link", LINK_NAMES)
def test_one_hot_alpha_gives_what_a_block_gives_or_more(link: str, seen: str) -> None:
    _, federation, setting, truth, tables = prepared(link, seen, intervals=100)
    observer = Observer(federation)
    blocks = ask_for_block(observer, setting, tables)
    of_block = [claim for source in blocks.values() for claim in telescope_blocks(source)]
    probed = probe_risk_sets(observer, setting, tables)
    of_alpha = [claim for claims in probed.values() for claim in claims]
    found = matches(of_block, truth).size
    assert found == len(of_block) >= 1
    assert matches(of_alpha, truth).size == len(of_alpha) >= found


def test_one_hot_alpha_tells_events_from_the_others_under_cloglog() -> None:
    _, federation, setting, truth, tables = prepared("cloglog", "only sums", intervals=30)
    table = tables[ALL_CENTERS]
    lone = (table.events == 1) & (table.leaving > 1)
    assert lone.any()
    claims = probe_risk_sets(Observer(federation), setting, tables)[ALL_CENTERS]
    apart = [
        claim
        for claim in claims
        if claim.event and claim.intervals is not None and lone[claim.intervals - 1]
    ]
    assert len(apart) == np.count_nonzero(lone) == matches(apart, truth).size


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("link", LINK_NAMES)
def test_a_finer_grid_gives_most_patients_away(link: str, seen: str) -> None:
    cohorts, federation, setting, _, _ = prepared(link, seen)
    longest = setting.grid.horizon
    finer = forged_setting(setting, TimeGrid.regular(longest / 2000, longest))
    claims = list(probe_on_grid(Observer(federation), finer))
    found = matches(claims, Patients.of(list(cohorts.values()), finer)).size
    assert 0.5 * 150 < found == len(claims)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("link", LINK_NAMES)
def test_large_batches_are_taken_apart(link: str, seen: str) -> None:
    _, federation, setting, truth, tables = prepared(link, seen, patients=60)
    claims = list(take_batches_apart(Observer(federation), setting, sizes(tables), most=100))
    assert matches(claims, truth).size == 60


def test_too_few_batches_are_not_taken_apart() -> None:
    _, federation, setting, _, tables = prepared("logit", "only sums", patients=60)
    assert not [*take_batches_apart(Observer(federation), setting, sizes(tables), most=50)]


def outermost(
    federation: Federation, setting: Setting, intervals: int, reach: Reach
) -> list[Candidate]:
    names = list(federation.names) if federation.shows_centers else [ALL_CENTERS]
    coarse = coarse_setting(setting, intervals)
    return list(probe_outermost(Observer(federation), coarse, names, 8, reach))


@pytest.mark.parametrize(
    ("link", "seen", "intervals"),
    [
        ("logit", "every center", 1),
        ("logit", "only sums", 2),
        ("cloglog", "only sums", 1),
        ("cloglog", "every center", 2),
    ],
)
def test_the_outermost_patients_are_isolated_on_any_grid(
    link: str, seen: str, intervals: int
) -> None:
    _, federation, setting, truth, _ = prepared(link, seen)
    claims = outermost(federation, setting, intervals, Reach())
    assert matches(claims, truth).size >= 3


def test_modest_coefficients_are_enough_to_isolate_a_patient() -> None:
    cohorts = sparse_tail(300, 30, seed=6, centers=3)
    federation = under_masks(cohorts)
    _, setting, truth = recorded(plan(cohorts, Newton(), 5), cohorts, federation)
    reach = Reach(alpha=15.0, beta=4.0, alpha_step=3.0, beta_step=3.0)
    rounds = federation.ledger.rounds
    assert matches(outermost(federation, setting, 1, reach), truth).size >= 1
    assert federation.ledger.rounds - rounds < 200
