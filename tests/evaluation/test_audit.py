from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pytest

from fedcox.evaluation.attacks.attack_setting import Attack
from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.audit import AttackOutcome, Audit, Protection, audit, left_out, protected
from fedcox.federation.center import Center
from fedcox.study.study import Study
from fedcox.study.study_tables import Grid
from fedcox.survival.cohort import Cohort
from tests.evaluation.attacks import few_values
from tests.evaluation.attacks.invented_studies import heavy_tailed, sparse_tail

EXACT = (Protection.EXACT, Protection.MASKED)
#: Studies that are easy to read without protection, each in its own way.
HARD = {
    "sparse tail": sparse_tail(180, 5, seed=4, centers=3),
    "heavy-tailed covariates": heavy_tailed(300, 5, seed=1, centers=3),
    "small centers": sparse_tail(130, 4, seed=7, centers=5),
}


def study(cohorts: Mapping[str, Cohort], link: str = "cloglog", **tables: object) -> Study:
    columns = next(iter(cohorts.values())).columns
    return Study(
        outcome={"time": "time", "event": "event"},
        covariates={
            f"x{number}": {"type": "number", "min": -100, "max": 100}
            for number in range(columns)
        },
        grid={"width": 0.05, "horizon": 4.0},
        model={"link": link},
        **tables,
    )


def audited(
    cohorts: Mapping[str, Cohort],
    *protections: Protection,
    link: str = "cloglog",
    attacks: Sequence[Attack] = ATTACKS,
    **tables: object,
) -> Audit:
    centers = [Center(name, cohort) for name, cohort in cohorts.items()]
    plan = study(cohorts, link, **tables)
    return audit(plan, centers, protections=protections, attacks=attacks, trials=20)


def named(*names: str) -> list[Attack]:
    return [attack for attack in ATTACKS if attack.name in names]


def found(result: Audit, protection: Protection) -> dict[str, int]:
    return {each.attack.name: each.outcomes[protection].recovered for each in result.attacks}


def test_without_protection_most_kinds_of_attack_find_somebody() -> None:
    result = audited(HARD["sparse tail"], Protection.EXACT)
    nobody = {name for name, count in found(result, Protection.EXACT).items() if not count}
    # Numbers of many values, no batch, no small center, and no rare column.
    assert nobody == {
        "whole numbers behind sums",
        "difference of two sets of centers",
        "batches of the fit",
        "solving a small center",
        "products with a rare column",
    }


def test_exact_time_is_attacked_as_it_is() -> None:
    result = audited(HARD["sparse tail"], *EXACT, link="log")
    for protection in EXACT:
        counts = found(result, protection)
        assert counts["difference of two studies"] == 5
        assert counts["difference of two results"] == 5
        assert counts["half-space probe"] >= 3
        assert result.recovered(protection) >= 5


def test_secure_sums_alone_do_not_stop_a_cheating_coordinator() -> None:
    chosen = named("batches of one patient", "half-space probe")
    result = audited(HARD["sparse tail"], Protection.MASKED, attacks=chosen)
    counts = found(result, Protection.MASKED)
    assert counts["batches of one patient"] >= 30
    assert counts["half-space probe"] >= 3


def test_what_chance_explains_is_nobody_recovered() -> None:
    of = partial(AttackOutcome, attacked=1500, claimed=1500)
    assert of(0).beyond_chance == 0
    assert of(7).beyond_chance == 7
    assert of(139, by_chance=121).beyond_chance == 0
    # 600 known, and of the other 900 a tenth by chance.
    assert of(690, by_chance=150).beyond_chance == 600
    assert of(1500, by_chance=900).beyond_chance == 1500
    assert of(1500, by_chance=1500).beyond_chance == 0
    # Few covariates: most are right by chance, and all are known nevertheless.
    assert of(1500, by_chance=1415).beyond_chance == 1500
    assert of(1425, by_chance=1415).beyond_chance == 0


def test_the_difference_of_two_sets_of_centers_is_the_sums_of_one() -> None:
    plan = few_values.study("sex", "stage", link="cloglog", width=90)
    centers = few_values.centers_of(plan, few_values.patients(600, seed=5))
    chosen = named("difference of two sets of centers")
    result = audit(plan, centers, protections=[Protection.MASKED], attacks=chosen)
    assert result.recovered(Protection.MASKED) > 0.99 * 600


def test_of_three_centers_no_secure_sum_of_two_is_asked() -> None:
    plan = few_values.study("sex", link="cloglog", width=90)
    centers = few_values.centers_of(plan, few_values.patients(300, seed=5, centers=3))
    chosen = named("difference of two sets of centers")
    result = audit(plan, centers, protections=[Protection.MASKED], attacks=chosen)
    assert result.attacks[0].outcomes[Protection.MASKED].attacked == 0


def with_sparse_column(cohorts: Mapping[str, Cohort]) -> dict[str, Cohort]:
    """One more column: zero, but for one patient of the first center."""
    sparse = {}
    for place, (name, cohort) in enumerate(cohorts.items()):
        column = np.zeros((cohort.patients, 1))
        column[3] = 7.3 if place == 0 else 0.0
        covariates = np.hstack([cohort.covariates, column])
        sparse[name] = Cohort(covariates, cohort.time, cohort.event, cohort.number)
    return sparse


def test_a_rare_column_gives_a_patient_away_to_who_only_reads() -> None:
    chosen = named("products with a rare column")
    result = audited(with_sparse_column(HARD["sparse tail"]), *EXACT, attacks=chosen)
    for protection in EXACT:
        assert found(result, protection)[chosen[0].name] == 1


def test_under_noise_nobody_is_found_and_exact_questions_are_not_answered() -> None:
    result = audited(HARD["sparse tail"], Protection.NOISE, link="log")
    assert result.protections == (Protection.NOISE,)
    assert result.recovered_under_noise == 0
    assert result.claims_stand
    for each in result.attacks:
        outcome = each.outcomes[Protection.NOISE]
        refused = each.attack.active and outcome.attacked
        assert outcome.ended == ("refused: exact_sums = false" if refused else None)
    assert result.membership[Protection.NOISE].sums > 3


def test_a_study_of_its_own_noise_is_audited_with_that() -> None:
    noise = {"epsilon": 2.0, "patients": 180}
    result = audited(
        HARD["sparse tail"], Protection.NOISE, link="log", attacks=[], privacy={"noise": noise}
    )
    claimed = result.membership[Protection.NOISE].coordinator.claimed
    assert claimed == pytest.approx(2.0, rel=1e-3)


def test_a_study_without_a_word_on_noise_gets_the_usual_noise() -> None:
    plan = study(HARD["sparse tail"], "log")
    meant = protected(plan, Protection.MASKED_NOISE, 180)
    assert meant.privacy.secure_sums
    assert meant.privacy.noise.price == 0.05  # type: ignore[union-attr]
    assert protected(plan, Protection.MASKED, 180).privacy.noise == "none"


def test_what_a_study_cannot_have_is_left_out_with_the_reason() -> None:
    cohorts = sparse_tail(60, 3, seed=0, centers=2)
    centers = [Center(name, cohort) for name, cohort in cohorts.items()]
    result = audit(study(cohorts), centers, attacks=ATTACKS[:1])
    assert result.protections == (Protection.EXACT,)
    assert "3 centers" in result.left_out[Protection.MASKED]
    assert '"cloglog" is not fitted under noise' in result.left_out[Protection.NOISE]
    assert result.recovered(Protection.MASKED) == 0


def test_a_price_that_no_noise_has_is_left_out_with_the_reason() -> None:
    cohorts = sparse_tail(30, 3, seed=0, centers=3)
    result = audited(cohorts, Protection.NOISE, link="log", attacks=[])
    assert result.protections == ()
    assert "price" in result.left_out[Protection.NOISE]


def test_with_every_event_time_there_are_no_secure_sums() -> None:
    timed = study(HARD["sparse tail"]).model_copy(update={"grid": Grid(times="events")})
    assert Protection.MASKED in left_out(timed, 3)
    assert Protection.MASKED not in left_out(study(HARD["sparse tail"]), 3)


def test_the_record_holds_counts_and_names_alone() -> None:
    chosen = named("batches of one patient", "half-space probe")
    result = audited(HARD["small centers"], Protection.EXACT, attacks=chosen)
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert record["patients"] == 130
    assert len(record["attacks"]) == 2
    for attack in record["attacks"]:
        for outcome in attack["outcomes"].values():
            assert set(outcome) == {"recovered", "attacked", "claimed", "by_chance", "ended"}
            assert isinstance(outcome["recovered"], int)
            assert 0 <= outcome["recovered"] <= outcome["claimed"]
