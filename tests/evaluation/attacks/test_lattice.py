"""Everybody is read out of exact sums of few values, and nobody out of sums with noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.evaluation.attacks.attack_setting import Attack
from fedcox.evaluation.attacks.lattice import whole_numbers
from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.audit import AttackOutcome, Audit, Protection, audit
from fedcox.study.study import Study
from tests.evaluation.attacks.few_values import centers_of, patients, study

PATIENTS = 1500
READ, APART = "whole numbers behind sums", "difference of two sets of centers"


def attacks(*names: str) -> list[Attack]:
    return [attack for attack in ATTACKS if attack.name in names]


def attacked(
    plan: Study,
    protection: Protection,
    names: Sequence[str] = (READ,),
    number: int = PATIENTS,
    seconds: float = 60.0,
) -> Audit:
    return audit(
        plan,
        centers_of(plan, patients(number, seed=1)),
        protections=[protection],
        attacks=attacks(*names),
        trials=20,
        seconds=seconds,
    )


def outcome(found: Audit, name: str = READ) -> AttackOutcome:
    (own,) = [each for each in found.attacks if each.attack.name == name]
    (reached,) = own.outcomes.values()
    return reached


@given(st.integers(0, 2**32 - 1), st.integers(2, 14))
@settings(max_examples=40)
def test_whole_numbers_are_found_from_few_sums(seed: int, unknowns: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 9, unknowns)
    rows = rng.uniform(0.5, 2.0, (max(2, unknowns // 3), unknowns))
    unsure = np.full(len(rows), 1e-9)
    guess = np.full(unknowns, truth.mean())
    sums = rows @ truth + rng.uniform(-1e-9, 1e-9, len(rows))
    np.testing.assert_array_equal(whole_numbers(rows, sums, unsure, guess), truth)


def test_no_whole_numbers_explain_sums_with_noise() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 9, 6)
    rows = rng.uniform(0.5, 2.0, (8, 6))
    sums = rows @ truth + rng.normal(size=8)
    assert whole_numbers(rows, sums, np.full(8, 1e-9), np.full(6, 4.0)) is None


@pytest.mark.parametrize(
    ("columns", "link", "width", "solver"),
    [
        (("sex", "stage"), "cloglog", 90, "newton"),
        (("sex", "stage"), "cloglog", 30, "newton"),
        (("sex", "stage"), "logit", 90, "newton"),
        (("sex", "stage", "marker"), "cloglog", 90, "lbfgs"),
    ],
)
def test_exact_secure_sums_of_grouped_time_give_everybody_away(
    columns: tuple[str, ...], link: str, width: float, solver: str
) -> None:
    plan = study(*columns, link=link, width=width, solver=solver)
    reached = outcome(attacked(plan, Protection.MASKED))
    assert reached.attacked == PATIENTS
    assert reached.recovered > 0.99 * PATIENTS
    assert reached.by_chance is not None
    assert reached.by_chance < 0.9 * PATIENTS


@pytest.mark.parametrize(
    ("protection", "name"), [(Protection.EXACT, READ), (Protection.MASKED, APART)]
)
def test_exact_sums_of_exact_time_give_nearly_everybody_away_by_their_hospital(
    protection: Protection, name: str
) -> None:
    reached = outcome(attacked(study("sex", "stage"), protection, [name]), name)
    assert reached.recovered == reached.claimed > 0.95 * PATIENTS
    assert reached.by_chance is not None
    assert reached.by_chance < 0.75 * PATIENTS


@pytest.mark.parametrize("protection", [Protection.NOISE, Protection.MASKED_NOISE])
def test_nobody_is_read_out_of_the_same_study_under_noise(protection: Protection) -> None:
    found = attacked(study("sex", "stage"), protection, [attack.name for attack in ATTACKS])
    assert found.recovered_under_noise == 0
    assert outcome(found, READ).attacked == outcome(found, APART).attacked == PATIENTS
    assert outcome(found, READ).claimed == outcome(found, APART).claimed == 0
    assert outcome(found, "difference of two results").claimed == 5


def test_sums_that_leave_without_their_noise_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(vector: np.ndarray, *_: object, **__: object) -> np.ndarray:
        return vector

    monkeypatch.setattr("fedcox.federation.noised_replies.noised", nothing)
    found = attacked(study("sex"), Protection.NOISE, [READ, "difference of two studies"])
    assert outcome(found).recovered > 0.99 * PATIENTS
    assert outcome(found, "difference of two studies").recovered == 5


def test_numbers_with_many_values_are_not_looked_for() -> None:
    plan = Study(
        outcome={"time": "time", "event": "event", "unit": "days"},
        covariates={"age": {"type": "number", "min": 0, "max": 120}},
        grid={"width": 90, "horizon": 1800},
        model={"link": "cloglog"},
    )
    frame = patients(200, seed=0).assign(age=np.arange(200) % 97 + 0.5)
    found = audit(
        plan,
        centers_of(plan, frame),
        protections=[Protection.MASKED],
        attacks=attacks(READ),
    )
    assert outcome(found).attacked == 0


def test_a_number_of_small_range_is_looked_for() -> None:
    plan = Study(
        outcome={"time": "time", "event": "event", "unit": "days"},
        covariates={"nodes": {"type": "number", "min": 0, "max": 4}},
        grid={"width": 90, "horizon": 1800},
        model={"link": "cloglog"},
    )
    frame = patients(600, seed=0)
    frame["nodes"] = np.random.default_rng(0).binomial(4, 0.4, 600)
    found = audit(
        plan,
        centers_of(plan, frame),
        protections=[Protection.MASKED],
        attacks=attacks(READ),
    )
    assert outcome(found).recovered == 600


def test_an_attack_ends_at_its_time_limit_and_keeps_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(np.arange(1e6).tolist())
    monkeypatch.setattr(
        "fedcox.evaluation.attacks.attack_setting.monotonic", lambda: next(clock)
    )
    plan = study("sex", "stage", link="cloglog", width=90)
    reached = outcome(attacked(plan, Protection.MASKED, seconds=6.0))
    assert reached.ended == "stopped after 6 s"
    assert 0 < reached.recovered < PATIENTS
