"""A coordinator who asks what no honest study asks."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.evaluation.attacks.attack_setting import Candidate, Deadline, TruePatients, matches
from fedcox.evaluation.attacks.differences import probe_outermost
from fedcox.evaluation.attacks.observed_sums import ALL_CENTERS, LifeTable, Observer
from fedcox.evaluation.attacks.single_patients import (
    ask_for_block,
    ask_for_single_patients,
    probe_risk_sets,
    telescope_blocks,
)
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.newton import Newton
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
) -> tuple[Cohorts, Federation, Setting, TruePatients, dict[str, LifeTable]]:
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


def outermost(federation: Federation, setting: Setting) -> list[Candidate]:
    names = list(federation.names) if federation.shows_centers else [ALL_CENTERS]
    return list(probe_outermost(Observer(federation), setting, names, 8, Deadline(60.0)))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("intervals", [1, 20])
def test_the_outermost_patients_are_isolated_on_any_grid(
    link: str, seen: str, intervals: int
) -> None:
    _, federation, setting, truth, _ = prepared(link, seen, intervals)
    assert matches(outermost(federation, setting), truth).size >= 3
