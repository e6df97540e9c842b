from __future__ import annotations

import numpy as np
import pytest

from fedcox.analysis.agreement import agree
from fedcox.analysis.plan import Plan
from fedcox.engines.masked import Masked
from fedcox.errors import RefusedError
from fedcox.evaluation.attacks.candidate import Candidate, Patients, matches
from fedcox.evaluation.attacks.level_combinations import level_columns, probe_combinations
from fedcox.evaluation.attacks.observer import Observer
from fedcox.federation.center import Center
from fedcox.federation.query import Federation
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.solvers.newton import Newton
from fedcox.survival.link import LINKS
from tests.evaluation.attacks.invented_studies import (
    in_the_open,
    level_combinations,
    sparse_tail,
    under_masks,
)

COHORTS = level_combinations(900, seed=1, centers=3)
NAMES = ("x0", "x1", "x2", "x3", "x4", "x5")


def plan(link: str) -> Plan:
    return Plan(NAMES, LINKS[link], "include", 0.1, 2.0, 0.0, Newton())


def alone() -> int:
    levels = np.concatenate([cohort.covariates[:, :4] for cohort in COHORTS.values()])
    return int(np.sum(np.unique(levels, axis=0, return_counts=True)[1] == 1))


def limited() -> Masked:
    gates = {name: Gate(Policy()) for name in COHORTS}
    return Masked.of_centers(
        [Center(name, own, gate=gates[name]) for name, own in COHORTS.items()]
    )


def attacked(federation: Federation, link: str) -> int:
    """How many patients are found."""
    setting = agree(plan(link), federation).setting
    found: list[Candidate] = list(
        probe_combinations(Observer(federation), setting, np.random.default_rng(0))
    )
    return int(matches(found, Patients.of(list(COHORTS.values()), setting)).size)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_whoever_is_alone_with_their_levels_is_found(link: str) -> None:
    assert alone() >= 1
    assert attacked(under_masks(COHORTS), link) == alone()
    assert attacked(in_the_open(COHORTS), link) >= alone()


def test_the_default_policy_lets_no_exact_sum_leave() -> None:
    with pytest.raises(RefusedError, match="exact_sums"):
        attacked(limited(), "logit")


def test_columns_of_levels_are_told_by_their_variance() -> None:
    setting = agree(plan("logit"), in_the_open(COHORTS)).setting
    assert level_columns(setting).tolist() == [0, 1, 2, 3]
    numbers = in_the_open(sparse_tail(300, 6, seed=0, centers=3))
    without = agree(plan("logit"), numbers).setting
    assert level_columns(without).size == 0
    assert list(probe_combinations(Observer(numbers), without, np.random.default_rng(0))) == []
