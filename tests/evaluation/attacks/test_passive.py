"""A coordinator who only reads what an ordinary fit sends."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TypeVar

import numpy as np
import pytest

from fedcox.data.synthetic import simulate_paper_cohort
from fedcox.evaluation.attacks.attack_setting import Candidate, TruePatients, matches
from fedcox.evaluation.attacks.gradient_inversion import invert_small_center, peel_tail
from fedcox.evaluation.attacks.observed_sums import (
    ALL_CENTERS,
    LifeTable,
    ObservedSource,
    Observer,
    Recorder,
)
from fedcox.evaluation.attacks.single_patients import read_batches, telescope_blocks
from fedcox.federation.queries.risk_set_sums import EventSumsAt, RiskSetSetting, RiskSetSumsAt
from fedcox.federation.setting import Setting
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.risk_set_moments import EventSums, RiskSetMoments
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.evaluation.attacks.invented_studies import (
    in_the_open,
    plan,
    recorded,
    sparse_tail,
    under_masks,
)
from tests.evaluation.attacks.webdisco_sums import telescope_risk_sets
from tests.problems import LINK_NAMES


def peeled(seen: dict[str, ObservedSource]) -> list[Candidate]:
    rng = np.random.default_rng(0)
    return [claim for source in seen.values() for claim in peel_tail(source, rng, 4)]


def webdisco(replies: str) -> tuple[list[Candidate], list[Candidate], TruePatients]:
    """WebDISCO's first round, and its first two, on the paper's data: five centers of 1000."""
    whole = simulate_paper_cohort(
        5000, 20, rng=np.random.default_rng(0), censoring_bound="population"
    ).cohort
    cohorts = {
        f"center {k}": Cohort(whole.covariates[k::5], whole.time[k::5], whole.event[k::5])
        for k in range(5)
    }
    times = np.unique(whole.time[whole.event])
    scaling = Scaling(
        np.arange(20), whole.covariates.mean(axis=0), whole.covariates.std(axis=0)
    )
    observer, agreed = Observer(in_the_open(cohorts)), RiskSetSetting(scaling, times)
    beta = np.full(20, 0.1)
    events = observer.replies(EventSumsAt(times, scaling.mean))
    first = observer.replies(RiskSetSumsAt(agreed, np.zeros(20), Detail.GRADIENT))
    second = observer.replies(RiskSetSumsAt(agreed, beta, Detail.GRADIENT))
    if replies == "only their sum":  # as a secure sum over such replies would show
        events, first, second = _summed(events), _summed(first), _summed(second)
    one_round, two_rounds = [], []
    for name, sums in first.items():
        counted = np.rint(events[name].events).astype(np.int64)
        table = LifeTable(round(sums.total[0]), sums.total, counted)
        one_round += telescope_risk_sets(sums, table)
        two_rounds += telescope_risk_sets(sums, table, second[name], beta)
    every = Setting(
        TimeGrid.at_events(times),
        np.ones(times.size, dtype=np.bool_),
        "include",
        LINKS["logit"],
        scaling,
    )
    return one_round, two_rounds, TruePatients.of(list(cohorts.values()), every)


Sums = TypeVar("Sums", EventSums, RiskSetMoments)


def _summed(replies: dict[str, Sums]) -> dict[str, Sums]:
    return {ALL_CENTERS: reduce(operator.add, replies.values())}


@pytest.mark.parametrize(
    ("replies", "after_one", "after_two"),
    [("of every center", 0.60, 0.85), ("only their sum", 0.30, 0.50)],
)
def test_webdisco_gives_away_most_patients_with_an_event(
    replies: str, after_one: float, after_two: float
) -> None:
    one_round, two_rounds, truth = webdisco(replies)
    events = np.count_nonzero(truth.event)
    for claims, share in ((one_round, after_one), (two_rounds, after_two)):
        found = matches(claims, truth)
        assert found.size == len(claims)  # nothing is claimed that is wrong
        assert np.count_nonzero(truth.event[found]) > share * events


@pytest.mark.parametrize("link", ["cloglog", "logit"])
@pytest.mark.parametrize(
    ("columns", "intervals", "seed"), [(5, 20, 4), (5, 60, 4), (20, 20, 2), (20, 60, 2)]
)
def test_a_sparse_tail_gives_patients_away_to_who_only_reads_gradients(
    link: str, columns: int, intervals: int, seed: int
) -> None:
    cohorts = sparse_tail(200, columns, seed)
    adam = Adam(learning_rate=0.05, steps=300)
    chosen = plan(cohorts, adam, intervals, link)
    seen, _, truth = recorded(chosen, cohorts, in_the_open(cohorts))
    claims = peeled(seen)
    assert 1 <= matches(claims, truth).size == len(claims)


@pytest.mark.parametrize("solver", [Newton(), Adam(learning_rate=0.05, steps=200)])
def test_secure_sums_alone_do_not_close_the_tail(solver: AbstractSolver) -> None:
    cohorts = sparse_tail(200, 20, seed=2, centers=4)
    seen, _, truth = recorded(plan(cohorts, solver, 60), cohorts, under_masks(cohorts))
    assert set(seen) == {ALL_CENTERS}
    assert matches(peeled(seen), truth).size >= 1


@pytest.mark.parametrize("link", LINK_NAMES)
def test_newtons_blocks_give_more_away_than_gradients(link: str) -> None:
    cohorts = sparse_tail(200, 20, seed=2)
    counts = []
    for solver in (Newton(), LBFGS()):
        chosen = plan(cohorts, solver, 60, link)
        seen, _, truth = recorded(chosen, cohorts, in_the_open(cohorts))
        counts.append(matches(peeled(seen), truth).size)
    assert counts[0] >= 3 > counts[1]


def test_where_censored_patients_count_one_half_the_tail_is_not_peeled() -> None:
    cohorts = sparse_tail(200, 5, seed=0)
    chosen = plan(cohorts, Newton(), 60, reading="half")
    seen, _, _ = recorded(chosen, cohorts, in_the_open(cohorts))
    assert peeled(seen) == []


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("reading", ["include", "exclude", "half"])
def test_blocks_without_effects_are_differences_of_patients(link: str, reading: str) -> None:
    cohorts = sparse_tail(300, 5, seed=1, centers=3)
    chosen = plan(cohorts, Newton(), 150, link, reading)  # type: ignore[arg-type]
    seen, _, truth = recorded(chosen, cohorts, in_the_open(cohorts))
    claims = [claim for source in seen.values() for claim in telescope_blocks(source)]
    found = matches(claims, truth).size
    assert found >= 15
    if reading != "half":  # two halves look like one patient
        assert found == len(claims)


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("solver", [Newton(), LBFGS(), Adam(learning_rate=0.05, steps=80)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_small_center_is_solved_for_as_a_whole(
    link: str, solver: AbstractSolver, size: int
) -> None:
    (whole,) = sparse_tail(200, 5, seed=2).values()
    cohorts = {
        "large": Cohort(whole.covariates[size:], whole.time[size:], whole.event[size:]),
        "small": Cohort(whole.covariates[:size], whole.time[:size], whole.event[:size]),
    }
    seen, setting, _ = recorded(plan(cohorts, solver, 10, link), cohorts, in_the_open(cohorts))
    claims = invert_small_center(seen["small"], np.random.default_rng(0))
    assert matches(claims, TruePatients.of([cohorts["small"]], setting)).size == size
    assert invert_small_center(seen["large"], np.random.default_rng(0)) == []


@pytest.mark.parametrize("link", LINK_NAMES)
def test_a_patient_alone_in_a_batch_is_read_off_directly(link: str) -> None:
    cohorts = sparse_tail(60, 5, seed=3, centers=4)
    adam = Adam(learning_rate=0.05, steps=60, batch_size=4)
    recorder = Recorder(in_the_open(cohorts))
    _, _, truth = recorded(plan(cohorts, adam, 10, link), cohorts, recorder)
    sizes = {name: cohort.patients for name, cohort in cohorts.items()}
    claims = read_batches(recorder.exchanges, sizes)
    assert 30 <= matches(claims, truth).size == len(claims)


def test_a_recorder_changes_nothing_of_a_fit() -> None:
    from fedcox.study.fit import estimate

    cohorts = sparse_tail(100, 4, seed=4, centers=3)
    chosen = plan(cohorts, Newton(), 10)
    plain, watched = in_the_open(cohorts), Recorder(in_the_open(cohorts))
    left, right = estimate(chosen, plain), estimate(chosen, watched)
    np.testing.assert_allclose(left.solution.beta, right.solution.beta, rtol=1e-10)
    assert left.rounds == right.rounds
    assert plain.names == watched.names
    assert [row.query for row in left.ledger] == [row.query for row in right.ledger]
