"""What a plan says of a study is what power formulas say, and what fits find."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import fedcox
from fedcox.errors import StudyError
from fedcox.study.noised_fit import spending
from fedcox.study.power import events_needed, smallest_log_ratio
from fedcox.study.study import Study
from fedcox.study.study_plan import plan

TABLES: dict[str, Any] = {
    "study": {"name": "planned"},
    "outcome": {"time": "days", "event": "died"},
    "covariates": {
        "age": {"type": "number", "min": 18, "max": 100},
        "sex": {"type": "category", "levels": ["f", "m"], "reference": "f"},
        "stage": {"type": "category", "levels": ["I", "II", "III", "IV"], "reference": "I"},
        "marker": {"type": "number", "min": 0, "max": 15},
    },
    "grid": {"horizon": 1800},
}


def study(**privacy: Any) -> Study:
    return Study(**TABLES, **({"privacy": privacy} if privacy else {}))


# The formula.


def test_hsieh_and_lavori_on_multiple_myeloma() -> None:
    """Their example (2000, section 3): a log hazard ratio of 1 per unit of log BUN, whose
    standard deviation is 0.3126 and whose R² with the other eight covariates is 0.1837; at a
    one-sided level of 5 %, 80 % power takes 64 events, or 78 with the others in the model."""
    alone = events_needed(1.0, 0.3126**2, level=0.1)
    assert math.ceil(alone) == 64
    assert math.ceil(alone / (1 - 0.1837)) == 78


def test_schoenfeld_for_two_equal_groups() -> None:
    """(z_0.975 + z_0.8)² / (¼ log² 2) = 65.35 events for a hazard ratio of two or one half."""
    assert events_needed(math.log(2.0), 0.25) == pytest.approx(65.35, abs=0.01)


def test_the_smallest_ratio_and_the_events_it_takes_are_inverse() -> None:
    ratio = smallest_log_ratio(700, 0.09, price=1.2)
    assert events_needed(ratio, 0.09, price=1.2) == pytest.approx(700)


def test_a_fit_finds_the_smallest_ratio_as_often_as_the_plan_says() -> None:
    """80 % of 300 simulated studies, give or take three standard errors of that share."""
    rng, patients, share, found, runs = np.random.default_rng(11), 400, 0.3, 0, 300
    lived = rng.exponential(1.0, 200_000) < 1.0
    events = round(float(lived.mean()) * patients)
    log_ratio = smallest_log_ratio(events, share * (1 - share))
    for _ in range(runs):
        level = (rng.random(patients) < share).astype(float)
        # So that the events are as many as without an effect.
        hazard = np.exp(log_ratio * (level - share))
        time = rng.exponential(1.0, patients) / hazard
        y = np.column_stack([np.minimum(time, 1.0), time < 1.0])
        fitted = fedcox.ProportionalHazards().fit(pd.DataFrame({"level": level}), y)
        found += float(fitted.summary_["p"].iloc[0]) < 0.05
    assert abs(found / runs - 0.8) < 3 * math.sqrt(0.8 * 0.2 / runs)


# The plan.


def test_noise_makes_the_log_of_the_smallest_ratio_as_much_larger_as_standard_errors() -> None:
    made = plan(study(noise={"price": 0.2, "patients": 1}), patients=15_000, events=7000)
    assert made.own.price is not None
    assert made.own.price == pytest.approx(1.2, abs=1e-4)
    for with_noise, without in zip(made.own.smallest, made.exact.smallest, strict=True):
        assert math.log(with_noise) == pytest.approx(made.own.price * math.log(without))
    quantiles = norm.ppf(0.975) + norm.ppf(0.8)
    assert math.log(made.exact.smallest[0]) == pytest.approx(2 * quantiles / math.sqrt(7000))


@pytest.mark.parametrize("noise", [{"price": 0.1}, {"epsilon": 5.0}])
@pytest.mark.parametrize("secure_sums", [True, False])
def test_epsilon_is_the_one_that_a_fit_of_this_study_spends(
    noise: dict[str, float], secure_sums: bool
) -> None:
    asked = study(secure_sums=secure_sums, noise={**noise, "patients": 5000, "events": 2000})
    assert plan(asked, centers=4).own.epsilon == pytest.approx(spending(asked, 4)[0], abs=1e-5)


def test_a_study_without_a_word_is_planned_as_hospitals_run_it() -> None:
    made = plan(study(), patients=1500, events=700)
    assert made.masked
    assert made.own.asked == "price 0.05"
    alone = plan(study(secure_sums=False), patients=1500, events=700)
    # Every center adds all of the noise, so that epsilon must be larger.
    assert made.own.epsilon is not None
    assert alone.own.epsilon is not None
    assert alone.own.epsilon > made.own.epsilon


def test_more_patients_are_better_in_every_way() -> None:
    made = plan(study(), patients=2000, events=1000)
    for curve in made.curves:
        told = [point for point in curve if point.epsilon is not None and point.price]
        ratios = [point.smallest[0] for point in told if point.answers]
        assert ratios == sorted(ratios, reverse=True)
        epsilons = [point.epsilon or 0.0 for point in told]
        assert epsilons == sorted(epsilons, reverse=True)


def test_how_many_patients_a_price_takes_for_an_epsilon() -> None:
    told = plan(study(), patients=1500, events=700).patients_for
    assert [epsilon for epsilon, _ in told] == [8.0, 3.0, 1.0]
    for epsilon, patients in told:
        there = plan(study(), patients=patients, events=round(patients * 700 / 1500)).own
        fewer = plan(study(), patients=int(0.9 * patients), events=round(0.42 * patients)).own
        assert there.epsilon is not None
        assert fewer.epsilon is not None
        assert there.epsilon <= epsilon < fewer.epsilon


def test_few_patients_are_told_of_and_not_refused() -> None:
    made = plan(study(), patients=25, events=12)
    assert (made.own.epsilon, made.own.price, made.own.answers) == (None, None, False)
    assert "No epsilon below 1000 gives this price" in made.remarks[0]
    assert "12 events for 6 coefficients are few" in made.remarks[1]
    little = plan(study(noise={"epsilon": 1.0, "patients": 300}))
    assert not little.own.answers
    assert "no intervals and no p-values are to be expected" in little.remarks[0]


@pytest.mark.parametrize(("events", "few"), [(59, True), (60, False)])
def test_fewer_than_ten_events_for_a_coefficient_are_few(events: int, few: bool) -> None:
    remarks = plan(study(), patients=1500, events=events).remarks
    assert any(f"{events} events for 6 coefficients are few" in said for said in remarks) == few


def test_half_of_the_patients_are_assumed_to_have_the_event_where_nobody_says() -> None:
    made = plan(study(), patients=1500)
    assert made.events == 750
    assert any("half of the patients are assumed" in remark for remark in made.remarks)


def test_exact_sums_are_planned_beside_noise_and_named_as_what_they_are() -> None:
    made = plan(study(noise="none"), patients=1500, events=700)
    assert made.own is made.exact
    assert "may be able to compute patients" in made.remarks[0]


def test_a_level_of_another_share() -> None:
    made = plan(study(), patients=1500, events=700, shares=[0.5, 0.1])
    half, tenth, _ = made.exact.smallest
    assert math.log(tenth) / math.log(half) == pytest.approx(0.5 / math.sqrt(0.1 * 0.9))


def test_what_is_written_as_json_reads_back() -> None:
    made = plan(study(), patients=100, events=40)
    record = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert record["choices"][0]["epsilon"] is None  # no noise: without bound
    assert [choice["asked"] for choice in record["choices"]] == [
        choice.asked for choice in made.choices
    ]


@pytest.mark.parametrize(
    ("tables", "asked", "found"),
    [
        (
            {"model": {"link": "logit"}, "grid": {"width": 30}},
            {"patients": 100},
            '"logit" is not fitted under noise',
        ),
        ({"grid": {"pieces": 5}}, {"patients": 100}, "horizon: needed"),
        ({"covariates": ["age"]}, {"patients": 100}, "min and max"),
        ({}, {}, "Give --patients"),
        ({}, {"patients": 100, "events": 200}, "more than the 100 patients"),
        ({}, {"patients": 100, "centers": 2}, "Two hospitals may use noise alone"),
        ({}, {"patients": 100, "shares": [0.0, 1.5]}, "A share of 1.5 is none"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(
    tables: dict[str, Any], asked: dict[str, Any], found: str
) -> None:
    with pytest.raises(StudyError) as refused:
        plan(Study(**{**TABLES, **tables}), **asked)
    assert found in " ".join([refused.value.subject, *refused.value.faults])
