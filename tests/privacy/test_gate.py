"""A hospital's gate: limits refuse what breaks them; what passes is counted for good."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.analysis.agreement import agree
from fedcox.analysis.fit import start
from fedcox.analysis.plan import Plan
from fedcox.engines.in_process import InProcess
from fedcox.errors import RefusedError
from fedcox.federation.batch import PatientBatch
from fedcox.federation.center import Center
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import Federation
from fedcox.privacy.dominance import largest_share
from fedcox.privacy.exposure import Exposure, Known, Request
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS
from tests.problems import LINK_NAMES, simulated, split

ALPHA, BETA = np.full(6, -3.0), np.zeros(4)
#: A reply that meets every default limit under masks.
FINE = Exposure(100, 40, smallest_group=1, pooled_group=10, parameters=10)
GRADIENT = Request("gradient", FINE, ALPHA, BETA, masked=True)
BLOCK = replace(
    GRADIENT, query="hessian", exposure=replace(FINE, time_by_covariate=True), beta=BETA
)
BATCHES = Policy(questions={"allowed": "all"})
NOISE = {"epsilon": 1.0, "delta": 1e-5}


def rules(
    request: Request, policy: Policy | None = None, known: Known | None = None
) -> list[str]:
    """The names of the limits that a new gate finds broken."""
    return refused(Gate(policy or Policy()), request, known)


def refused(gate: Gate, request: Request, known: Known | None = None) -> list[str]:
    try:
        gate.admit(request, known or Known())
    except RefusedError as error:
        return [fault.split(":")[0] for fault in error.faults]
    return []


def of(request: Request, **exposure: Any) -> Request:
    return replace(request, exposure=replace(request.exposure, **exposure))


def at(beta: FloatArray, alpha: FloatArray = ALPHA) -> Request:
    return replace(GRADIENT, alpha=alpha, beta=beta)


def along(length: float) -> FloatArray:
    return np.array([length, 0.0, 0.0, 0.0])


def test_what_meets_the_limits_passes() -> None:
    assert not rules(GRADIENT)
    assert not rules(BLOCK)
    assert not rules(Request("covariate sums", Exposure(20, 5), masked=True))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (of(GRADIENT, patients=19), ["[cohort] patients"]),
        (of(GRADIENT, events=4), ["[cohort] events"]),
        (of(GRADIENT, patients=0, events=0), ["[cohort] patients", "[cohort] events"]),
        (of(GRADIENT, pooled_group=4), ["[groups] interval"]),
        (of(GRADIENT, pooled_group=0), ["[groups] interval"]),
        (of(GRADIENT, pooled_group=None), ["[groups] interval"]),
        (of(GRADIENT, parameters=34), ["[cohort] parameters_per_patient"]),
        (of(BLOCK, pooled_group=9), ["[blocks] group"]),
        (replace(GRADIENT, query="local steps"), ["[questions] allowed"]),
        (replace(GRADIENT, query="distinct event times"), ["[questions] allowed"]),
        (replace(GRADIENT, query="risk-set sums: gradient"), ["[questions] allowed"]),
        (at(along(2.9), np.full(6, -15.1)), ["[parameters] alpha"]),
        (at(along(3.1)), ["[parameters] beta_step"]),
        (at(along(5.1)), ["[parameters] beta", "[parameters] beta_step"]),
        (
            Request("last interval", Exposure(100, 40, patient_level=True)),
            ["[protection] secure_sums", "[questions] patient_level"],
        ),
    ],
)
def test_a_limit_refuses_what_breaks_it(request_: Request, expected: list[str]) -> None:
    assert rules(request_) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_no_numbers_are_refused(value: float) -> None:
    assert "[parameters] alpha" in rules(at(BETA, np.full(6, value)))
    assert "[parameters] beta" in rules(at(along(value)))
    gate = Gate(Policy(parameters={"alpha": math.inf, "beta": math.inf}))
    gate.admit(GRADIENT)
    expected = ["[parameters] alpha_step", "[parameters] beta_step"]
    assert refused(gate, at(along(value), np.full(6, value))) == expected


def test_all_broken_limits_are_named_at_once_with_counts() -> None:
    request = of(BLOCK, patients=12, events=3, pooled_group=3, parameters=30)
    with pytest.raises(RefusedError) as told:
        Gate(Policy()).admit(replace(request, beta=along(9.0)), Known(level=2, share=0.87))
    found = {fault.split(":")[0]: fault for fault in told.value.faults}
    assert list(found) == [
        "[cohort] patients",
        "[cohort] events",
        "[groups] interval",
        "[groups] level",
        "[blocks] group",
        "[cohort] parameters_per_patient",
        "[parameters] beta",
        "[parameters] beta_step",
        "[parameters] share",
    ]
    assert found["[groups] interval"] == (
        "[groups] interval: the smallest has 3 patients; at least 5 are needed. Use wider "
        "intervals, a nearer horizon, or a larger smallest_group."
    )
    assert "'hessian'" in str(told.value)
    # The share is a function of one patient's values: only that it is too large is told.
    assert "0.87" not in str(told.value)


def test_only_sums_over_centers_unless_the_hospital_says_otherwise() -> None:
    alone = of(replace(GRADIENT, masked=False), smallest_group=5)
    assert rules(alone) == ["[protection] secure_sums"]
    assert not rules(alone, Policy(protection={"secure_sums": "optional"}))


def test_a_reply_seen_alone_is_judged_by_the_centers_own_groups() -> None:
    optional = Policy(protection={"secure_sums": "optional"})
    alone = of(replace(GRADIENT, masked=False), smallest_group=4, pooled_group=50)
    assert rules(alone, optional) == ["[groups] interval"]
    block = of(replace(BLOCK, masked=False), smallest_group=10)
    assert rules(block, optional) == ["[blocks] only_masked"]


def test_a_life_table_is_what_groups_are_agreed_by() -> None:
    table = Request("interval counts", Exposure(100, 40, smallest_group=1, counts=True))
    assert not rules(replace(table, masked=True))
    optional = Policy(protection={"secure_sums": "optional"})
    assert rules(table, optional) == ["[groups] interval"]


@pytest.mark.parametrize(
    ("patients", "passes"), [(0, True), (1, False), (19, False), (20, True)]
)
def test_a_batch_needs_enough_patients_of_the_center_or_none(
    patients: int, passes: bool
) -> None:
    batch = of(GRADIENT, batch=True, patients=patients, events=0, smallest_group=5)
    request = replace(batch, query="gradient of a batch")
    assert rules(request, BATCHES) == ([] if passes else ["[groups] batch"])


def test_the_groups_of_a_study_are_not_those_of_a_batch() -> None:
    batch = of(GRADIENT, batch=True, patients=40, smallest_group=1, pooled_group=10)
    request = replace(batch, query="gradient of a batch")
    assert rules(request, BATCHES) == ["[groups] interval"]


def test_batches_are_not_answered_unless_a_hospital_says_so() -> None:
    """Who draws the batches knows who is in which; enough overlapping ones are everybody."""
    batch = of(GRADIENT, batch=True, smallest_group=5)
    assert rules(replace(batch, query="gradient of a batch")) == ["[questions] allowed"]


def test_those_with_the_event_and_those_without_are_counted_apart() -> None:
    assert rules(of(GRADIENT, pooled_group=12, pooled_part=1)) == ["[groups] interval"]
    assert not rules(of(GRADIENT, pooled_group=12, pooled_part=5))
    alone = replace(of(GRADIENT, smallest_group=12, smallest_part=1), masked=False)
    policy = Policy(protection={"secure_sums": "optional"})
    assert rules(alone, policy) == ["[groups] interval"]


def test_parameters_are_compared_with_the_patients_behind_a_reply() -> None:
    many = of(GRADIENT, patients=25, parameters=40)
    assert rules(many) == ["[cohort] parameters_per_patient"]
    # Six intervals that ten patients leave each: at least sixty.
    assert not rules(of(many, parameters=19))
    assert not rules(many, known=Known(patients=122))
    alone = of(replace(many, masked=False), smallest_group=10)
    optional = Policy(protection={"secure_sums": "optional"})
    found = rules(alone, optional, Known(patients=10_000))
    assert found == ["[cohort] parameters_per_patient"]


@pytest.mark.parametrize(("level", "share"), [(4, None), (None, 0.51), (None, math.nan)])
def test_rare_levels_and_dominant_patients_are_refused(
    level: int | None, share: float | None
) -> None:
    expected = "[groups] level" if share is None else "[parameters] share"
    assert rules(GRADIENT, known=Known(level=level, share=share)) == [expected]
    assert not rules(GRADIENT, known=Known(level=5, share=0.5))


def test_intervals_may_be_joined_and_not_be_cut_elsewhere() -> None:
    gate = Gate(Policy())
    gate.admit(GRADIENT, Known(edges=np.arange(1.0, 13.0)))
    gate.admit(GRADIENT, Known(edges=np.array([3.0, 12.0])))
    gate.admit(GRADIENT, Known(edges=np.arange(1.0, 13.0)))
    moved = Known(edges=np.array([3.0, 11.5]))
    assert refused(gate, GRADIENT, moved) == ["[groups] one_grid"]
    free = Gate(Policy(groups={"one_grid": False}))
    free.admit(GRADIENT, Known(edges=np.arange(1.0, 13.0)))
    free.admit(GRADIENT, moved)


def test_steps_are_counted_from_the_last_question() -> None:
    gate = Gate(Policy())
    gate.admit(at(along(3.0)))
    gate.admit(at(along(5.0)))
    assert refused(gate, at(along(1.9))) == ["[parameters] beta_step"]
    gate.admit(at(along(2.1)))
    assert refused(gate, at(along(2.1), ALPHA + 3.1)) == ["[parameters] alpha_step"]
    gate.admit(at(along(2.1), ALPHA - 2.9))
    assert gate.rounds == 4


def test_the_last_place_is_the_gates_own_copy() -> None:
    gate, beta = Gate(Policy()), along(0.0)
    gate.admit(at(beta))
    beta[0] = 4.0
    assert refused(gate, at(along(4.0))) == ["[parameters] beta_step"]


def test_a_study_begun_again_with_fewer_intervals_starts_without_effects() -> None:
    gate = Gate(Policy())
    gate.admit(GRADIENT)
    fewer = np.full(ALPHA.size - 1, -3.0)
    assert refused(gate, at(np.full(3, 2.5), fewer)) == ["[parameters] beta_step"]
    gate.admit(at(np.zeros(3), fewer))
    assert gate.rounds == 2  # and nothing is forgotten


def test_who_was_refused_too_often_is_answered_no_more() -> None:
    gate = Gate(Policy(questions={"refusals": 3}))
    for _ in range(3):
        assert refused(gate, at(along(4.0))) == ["[parameters] beta_step"]
    assert refused(gate, GRADIENT) == ["[questions] refusals"]


def test_a_question_without_intervals_does_not_forget_where_they_were() -> None:
    gate = Gate(Policy(questions={"allowed": "all"}))
    gate.admit(GRADIENT)
    gate.admit(Request("partial likelihood: gradient", FINE, np.empty(0), BETA, masked=True))
    assert refused(gate, at(BETA, ALPHA + 4.0)) == ["[parameters] alpha_step"]


def test_blocks_and_rounds_are_used_up() -> None:
    gate = Gate(Policy(blocks={"times": 2}, parameters={"rounds": 4}))
    gate.admit(BLOCK)
    gate.admit(BLOCK)
    assert refused(gate, BLOCK) == ["[blocks] times"]
    gate.admit(GRADIENT)
    gate.admit(GRADIENT)
    assert refused(gate, GRADIENT) == ["[parameters] rounds"]
    # Nothing a coordinator chooses sets the counts back.
    elsewhere = Known(edges=np.array([2.0]), patients=10_000)
    assert refused(gate, at(along(1.0), ALPHA + 1.0), elsewhere) == ["[parameters] rounds"]
    gate.admit(Request("covariate sums", Exposure(100, 40), masked=True))
    assert (gate.rounds, gate.blocks) == (4, 2)


def test_no_block_at_all() -> None:
    assert rules(BLOCK, Policy(blocks={"times": 0})) == ["[blocks] times"]


def test_noise_where_it_is_required() -> None:
    required = Policy(differential_privacy={"required": True, **NOISE})
    assert rules(GRADIENT, required) == ["[differential_privacy] required"]
    clipped = replace(GRADIENT, query="noised score", private=True)
    assert not rules(clipped, required)


def test_noise_covers_small_groups_and_far_parameters() -> None:
    """And a small hospital, but no reply that is seen alone, or more rounds than allowed."""
    policy = Policy(parameters={"rounds": 1}, differential_privacy=NOISE)
    clipped = replace(
        of(GRADIENT, pooled_group=1, parameters=1000),
        query="noised score",
        beta=along(50.0),
        private=True,
    )
    known = Known(level=1, share=1.0)
    gate = Gate(policy)
    gate.admit(clipped, known)
    assert refused(gate, clipped, known) == ["[parameters] rounds"]
    small = of(replace(clipped, masked=False), patients=10)
    assert rules(small, policy) == ["[protection] secure_sums"]


def test_noise_of_unknown_size_covers_nothing() -> None:
    clipped = of(replace(GRADIENT, query="noised score", private=True), pooled_group=1)
    assert rules(clipped) == ["[groups] interval", "[differential_privacy] epsilon"]


def test_parameters_under_noise_are_no_place_to_go_on_from() -> None:
    gate = Gate(Policy(differential_privacy=NOISE))
    gate.admit(replace(at(along(5.0)), query="noised score", private=True))
    assert refused(gate, at(along(5.0))) == ["[parameters] beta_step"]


@given(
    lengths=st.lists(st.floats(-8, 8), min_size=1, max_size=30),
    blocks=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_a_refused_question_changes_nothing_and_an_answered_one_keeps_every_limit(
    lengths: list[float], blocks: list[bool]
) -> None:
    policy = Policy(
        blocks={"times": 3}, parameters={"rounds": 8}, questions={"refusals": math.inf}
    )
    gate, last, rounds, given_blocks = Gate(policy), 0.0, 0, 0
    for length, block in zip(lengths, blocks, strict=False):
        request = replace(BLOCK if block else GRADIENT, beta=along(length))
        allowed = (
            abs(length) <= 5
            and abs(length - last) <= 3
            and rounds < 8
            and not (block and given_blocks >= 3)
        )
        assert bool(refused(gate, request)) != allowed
        if allowed:
            last, rounds, given_blocks = length, rounds + 1, given_blocks + block
        assert (gate.rounds, gate.blocks) == (rounds, given_blocks)


@given(
    patients=st.integers(0, 50),
    group=st.none() | st.integers(0, 20),
    length=st.floats(allow_nan=True),
    flags=st.tuples(*[st.booleans()] * 5),
)
def test_without_limits_nothing_is_refused(
    patients: int, group: int | None, length: float, flags: tuple[bool, ...]
) -> None:
    masked, private, block, level, batch = flags
    exposure = Exposure(patients, 0, group, group, group, group, 1000, block, level, batch)
    alpha = np.full(5, length)
    request = Request("anything", exposure, alpha, alpha[:2], masked, private)
    gate = Gate(Policy.without_limits())
    known = Known(alpha[:1], level=0, share=1.0)
    for point in (request, replace(request, alpha=alpha[:4], beta=alpha[:1])):
        gate.admit(point, known)


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("solver", [Newton(), LBFGS(), LBFGS(scaling="block")], ids=repr)
def test_an_honest_fit_stays_inside_the_default_limits(
    link: str, solver: AbstractSolver
) -> None:
    """In parameters, steps, shares, rounds and blocks, on the path that a fit really takes."""
    cohort = simulated(600, 4, seed=5)
    cohorts = split(cohort, np.arange(600) % 6, 6)
    plan = Plan(
        columns=("a", "b", "c", "d"),
        link=LINKS[link],
        reading="include",
        width=20.0,
        horizon=120.0,
        ridge=0.0,
        solver=solver,
    )
    asked: list[DerivativesAt] = []
    federation = InProcess([Center(name, part) for name, part in cohorts.items()])
    agreement = agree(plan, federation)
    problem = start(plan, agreement)
    loss = problem.loss

    def recorded(
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        asked.append(DerivativesAt(agreement.setting, alpha, beta, detail))
        return loss(federation, alpha, beta, detail, batch)

    solution = solver.minimise(federation, replace(problem, loss=recorded))
    assert solution.converged
    assert len(asked) >= 4
    for part in cohorts.values():
        gate = Gate(Policy())
        for query in asked:
            exposure = replace(query.exposure(part), pooled_group=10, pooled_part=5)
            setting = agreement.setting
            share = largest_share(
                part,
                setting.placed(part),
                setting.scaling,
                setting.link,
                query.alpha,
                query.beta,
            )
            known = Known(edges=setting.grid.edges, share=share, patients=600)
            request = Request(query.name, exposure, query.alpha, query.beta, masked=True)
            gate.admit(request, known)
        assert gate.rounds == len(asked)
