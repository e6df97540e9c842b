from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import Grid, Model
from fedcox.errors import RefusedError, SecureSumError
from fedcox.evaluation.attacks.scene import Attack
from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.audit import Audit, audit, rule_of
from fedcox.evaluation.protection import Protection, left_out
from fedcox.federation.center import Center
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort, FloatArray
from tests.evaluation.attacks.invented_studies import (
    categories,
    heavy_tailed,
    level_combinations,
    sparse_tail,
)

#: Studies that are easy to read without protection, each in its own way.
HARD = {
    "sparse tail": sparse_tail(180, 5, seed=4, centers=3),
    "heavy-tailed covariates": heavy_tailed(300, 5, seed=1, centers=3),
    "categories": categories(240, 6, seed=2, centers=3),
    "many columns": sparse_tail(450, 30, seed=6, centers=3),
    "small centers": sparse_tail(130, 4, seed=7, centers=5),
    "combinations of levels": level_combinations(500, seed=0, centers=3),
}


def study(cohorts: Mapping[str, Cohort], link: str = "cloglog", **tables: object) -> Study:
    columns = next(iter(cohorts.values())).columns
    return Study(
        outcome={"time": "time", "event": "event"},
        covariates=[f"x{number}" for number in range(columns)],
        grid={"width": 0.05, "horizon": 4.0},
        model={"link": link},
        **tables,
    )


def audited(
    cohorts: Mapping[str, Cohort],
    *protections: Protection,
    link: str = "cloglog",
    attacks: Sequence[Attack] = ATTACKS,
) -> Audit:
    centers = [Center(name, cohort) for name, cohort in cohorts.items()]
    return audit(study(cohorts, link), centers, protections=protections, attacks=attacks)


def named(*names: str) -> list[Attack]:
    return [attack for attack in ATTACKS if attack.name in names]


def found(result: Audit, protection: Protection) -> dict[str, int]:
    return {attack.name: attack.outcomes[protection].recovered for attack in result.attacks}


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("sparse tail", "logit"),
        ("sparse tail", "cloglog"),
        ("heavy-tailed covariates", "logit"),
        ("heavy-tailed covariates", "cloglog"),
        ("categories", "cloglog"),
        ("many columns", "cloglog"),
        ("small centers", "cloglog"),
        ("combinations of levels", "cloglog"),
        ("combinations of levels", "logit"),
    ],
)
def test_a_study_under_the_default_protection_gives_no_patient_away(
    name: str, link: str
) -> None:
    result = audited(HARD[name], Protection.BOTH, link=link)
    assert {
        what: count for what, count in found(result, Protection.BOTH).items() if count
    } == {}


@pytest.mark.parametrize("method", ["newton", "lbfgs", "adam"])
def test_whatever_the_solver_the_default_protection_gives_no_patient_away(method: str) -> None:
    settings: dict[str, object] = {"method": method}
    if method == "adam":
        settings |= {"steps": 190, "learning_rate": 0.05}
    centers = [Center(name, cohort) for name, cohort in HARD["sparse tail"].items()]
    result = audit(
        study(HARD["sparse tail"], solver=settings),
        centers,
        protections=[Protection.BOTH],
        attacks=[attack for attack in ATTACKS if not attack.active],
    )
    assert result.recovered(Protection.BOTH) == 0


def with_sparse_column(cohorts: Mapping[str, Cohort]) -> dict[str, Cohort]:
    """One more column: zero, but for one patient of the first center."""
    sparse = {}
    for place, (name, cohort) in enumerate(cohorts.items()):
        column = np.zeros((cohort.patients, 1))
        column[3] = 7.3 if place == 0 else 0.0
        covariates = np.hstack([cohort.covariates, column])
        sparse[name] = Cohort(covariates, cohort.time, cohort.event, cohort.number)
    return sparse


def test_a_rare_column_gives_a_patient_away_to_who_only_reads_unless_limits_are_set() -> None:
    attack = named("products with a rare column")
    result = audited(
        with_sparse_column(HARD["sparse tail"]),
        *(Protection.NONE, Protection.SECURE_SUMS, Protection.LIMITS, Protection.BOTH),
        attacks=attack,
    )
    assert found(result, Protection.NONE)[attack[0].name] == 1
    assert found(result, Protection.SECURE_SUMS)[attack[0].name] == 1
    assert found(result, Protection.LIMITS)[attack[0].name] == 0
    assert result.attacks[0].outcomes[Protection.BOTH].refused == "exact_sums"


def test_without_protection_every_kind_of_attack_finds_somebody() -> None:
    result = audited(HARD["sparse tail"], Protection.NONE)
    counts = found(result, Protection.NONE)
    nobody = {name for name, count in counts.items() if not count}
    # This study asks for no batch, no center of it is small, and no column rare or of levels.
    assert nobody == {
        "batches of the fit",
        "solving for a small center",
        "products with a rare column",
        "combinations of levels",
    }
    assert counts["risk-set sums, as WebDISCO sends them"] > 0.6 * result.patients


def test_secure_sums_alone_stop_neither_the_tail_nor_a_cheating_coordinator() -> None:
    chosen = named("peeling the tail of the fit", "batches of one patient")
    result = audited(HARD["sparse tail"], Protection.SECURE_SUMS, attacks=chosen)
    counts = found(result, Protection.SECURE_SUMS)
    assert counts["peeling the tail of the fit"] >= 1
    assert counts["batches of one patient"] >= 30


def test_who_is_alone_with_their_levels_is_found_where_one_protection_is_missing() -> None:
    chosen, both = named("combinations of levels"), (Protection.NONE, Protection.SECURE_SUMS)
    result = audited(HARD["combinations of levels"], *both, attacks=chosen)
    assert result.recovered(Protection.NONE) >= 5
    assert result.recovered(Protection.SECURE_SUMS) >= 2


def test_a_policy_without_limits_protects_nobody() -> None:
    cohorts = HARD["sparse tail"]
    centers = [Center(name, cohort) for name, cohort in cohorts.items()]
    policies = {name: Policy.without_limits() for name in cohorts}
    chosen = named("peeling the tail of the fit", "batches of one patient")
    result = audit(
        study(cohorts), centers, policies, protections=[Protection.LIMITS], attacks=chosen
    )
    counts = found(result, Protection.LIMITS)
    assert counts["batches of one patient"] >= 30
    assert counts["peeling the tail of the fit"] >= 1


NOISED = {
    name: Cohort(np.clip(own.covariates, -2.0, 2.0), own.time, own.event)
    for name, own in HARD["sparse tail"].items()
}


def noised(attacks: Sequence[Attack], *, secure_sums: bool = False, **solver: float) -> Audit:
    """A study under differential privacy, attacked."""
    private = Study(
        outcome={"time": "time", "event": "event"},
        covariates={
            f"x{number}": {"type": "number", "min": -2, "max": 2}
            for number in range(next(iter(NOISED.values())).columns)
        },
        grid={"width": 0.5, "horizon": 2},
        model={"link": "cloglog"},
        solver={"method": "private", "patients": 180, **solver},
        privacy={"secure_sums": secure_sums, "differential": {"epsilon": 3.0}},
    )
    centers = [Center(name, cohort) for name, cohort in NOISED.items()]
    return audit(private, centers, protections=[Protection.NOISE], attacks=attacks)


def test_noise_gives_nothing_exact_and_its_epsilon_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedcox.evaluation.audit._REPLIES", 3000)
    result = noised(
        [attack for attack in ATTACKS if not attack.active] + named("one-hot alpha")
    )
    assert result.recovered(Protection.NOISE) == 0
    assert result.claims_stand
    assert [found.question for found in result.noise] == [
        "clipped covariate moments",
        "clipped gradient",
    ]
    for found in result.noise:
        assert found.claimed == pytest.approx(3.0, rel=1e-3)
        assert 1.0 < found.lower_bound <= found.claimed
        assert found.moved == pytest.approx(1.0, rel=1e-3)
    outcomes = {each.name: each.outcomes[Protection.NOISE] for each in result.attacks}
    peeling = outcomes["peeling the tail of the fit"]
    assert (peeling.attacked, peeling.refused) == (result.patients, None)  # it was tried
    for nothing_sent in ("time × covariate blocks of the fit", "batches of the fit"):
        assert outcomes[nothing_sent].attacked == 0


def test_a_study_whose_noise_is_left_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(vector: FloatArray, *_: object, **__: object) -> FloatArray:
        return vector

    monkeypatch.setattr("fedcox.federation.noised_replies.noised", nothing)
    monkeypatch.setattr("fedcox.evaluation.audit._REPLIES", 600)
    result = noised(named("peeling the tail of the fit"), secure_sums=True, steps=5)
    assert [found.consistent for found in result.noise] == [False, False]
    assert not result.claims_stand


def test_the_noise_of_sampled_sums_is_audited_as_if_the_patient_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedcox.evaluation.audit._REPLIES", 3000)
    result = noised(named("peeling the tail of the fit"), sampling_rate=0.5, steps=3)
    assert [found.sampled for found in result.noise] == [True, True]
    assert result.claims_stand
    for found in result.noise:
        assert 0.2 * found.claimed < found.lower_bound


def test_what_a_study_cannot_have_is_left_out_with_the_reason() -> None:
    cohorts = sparse_tail(60, 3, seed=0, centers=2)
    centers = [Center(name, cohort) for name, cohort in cohorts.items()]
    result = audit(study(cohorts), centers, attacks=ATTACKS[:1])
    assert result.protections == (Protection.NONE, Protection.LIMITS)
    assert "3 centers" in result.left_out[Protection.BOTH]
    assert "privacy.differential" in result.left_out[Protection.NOISE]
    assert result.recovered(Protection.BOTH) == 0


def test_with_every_event_time_there_are_no_secure_sums() -> None:
    grouped = study(sparse_tail(60, 3, seed=0))
    timed = grouped.model_copy(update={"grid": Grid(times="events")})
    assert "every event time" in left_out(timed, 3)[Protection.BOTH]
    exact = grouped.model_copy(update={"grid": Grid(), "model": Model(link="log")})
    for each in (grouped, exact):
        assert Protection.BOTH not in left_out(each, 3)


def test_the_record_holds_counts_and_names_alone() -> None:
    chosen = named("batches of one patient", "a finer grid")
    result = audited(HARD["small centers"], Protection.NONE, attacks=chosen)
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert record["patients"] == 130
    assert len(record["attacks"]) == 2
    for attack in record["attacks"]:
        for outcome in attack["outcomes"].values():
            assert set(outcome) == {"recovered", "attacked", "claimed", "refused"}
            assert isinstance(outcome["recovered"], int)
            assert 0 <= outcome["recovered"] <= outcome["claimed"]


def test_a_rule_is_named_without_what_was_found() -> None:
    fault = "[groups] interval: the smallest has 3 patients; at least 5 are needed."
    assert rule_of(RefusedError("No.", [fault])) == "[groups] interval"
    assert rule_of(SecureSumError("No sum. Try again.", [])) == "No sum"
