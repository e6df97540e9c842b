"""The largest share of one patient in the sums of a gradient, against the stacked rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.privacy.dominance import largest_share
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval, TimeAtRisk, TimeGrid
from tests.problems import LINK_NAMES, READINGS, simulated

GRID = TimeGrid.regular(25.0, 150.0)
seeds = st.integers(0, 2**32 - 1)


def placed(cohort: Cohort, reading: CensoredInterval = "include") -> TimeAtRisk:
    return GRID.at_risk(cohort.time, cohort.event, reading)


def share(
    cohort: Cohort,
    beta: FloatArray,
    *,
    alpha: float = -2.0,
    link: str = "cloglog",
    scaling: Scaling | None = None,
    rows: IntArray | None = None,
) -> float:
    scaling = scaling or Scaling.none(cohort.columns)
    every = np.full(GRID.intervals, alpha)
    return largest_share(cohort, placed(cohort), scaling, LINKS[link], every, beta, rows)


def slopes(link: str, theta: float) -> tuple[float, float]:
    """Of the cost without the event, and of minus the cost with it."""
    if link == "logit":
        return 1 / (1 + np.exp(-theta)), 1 / (1 + np.exp(theta))
    return np.exp(theta), np.exp(theta) / np.expm1(np.exp(theta))


Sums = dict[tuple[str, int | None], list[tuple[int, float]]]


def stacked(link: str, at_risk: TimeAtRisk, alpha: FloatArray, theta: FloatArray) -> Sums:
    """Who weighs how much in every sum, by interval and (None) over all of them."""
    sums: Sums = {}
    for patient, passed in enumerate(at_risk.passed.tolist()):
        cells = [(m, 1.0) for m in range(passed + at_risk.event[patient])]
        if at_risk.part[patient]:
            cells.append((passed, at_risk.part[patient]))
        for m, counts in cells:
            rising, falling = slopes(link, alpha[m] + theta[patient])
            weights = {"rising": rising, "falling": falling, "both": rising * falling}
            if at_risk.event[patient] and m == passed:
                weights["happened"] = falling
            for name, weight in weights.items():
                for interval in (m, None):
                    sums.setdefault((name, interval), []).append((patient, counts * weight))
    return sums


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@given(
    seed=seeds,
    patients=st.integers(1, 60),
    level=st.floats(-6, 4),
    length=st.floats(0, 3),
)
def test_it_is_the_share_among_stacked_rows(
    reading: CensoredInterval, link: str, seed: int, patients: int, level: float, length: float
) -> None:
    cohort = simulated(patients=patients, seed=seed)
    rng = np.random.default_rng(seed)
    alpha = np.minimum(level + rng.normal(size=GRID.intervals), 4.0)
    beta = rng.normal(size=cohort.columns)
    beta *= length / np.linalg.norm(beta)
    theta = np.minimum(cohort.covariates @ beta, 2.0)  # where the cost of an event has a slope
    capped = Cohort(theta[:, None], cohort.time, cohort.event)
    at_risk = placed(cohort, reading)
    sums = stacked(link, at_risk, alpha, theta)
    expected = 0.0
    for (name, interval), parts in sums.items():
        if name == "happened" and interval is None and at_risk.event.sum() < 5:
            continue
        total = sum(weight for _, weight in parts)
        if interval is not None:
            rising, falling = slopes(link, alpha[interval] + float(np.median(theta)))
            fill = {"rising": rising, "both": rising * falling}.get(name, falling)
            total += max(0, 40 - len(parts)) * fill
        own = np.bincount([patient for patient, _ in parts], [weight for _, weight in parts])
        expected = max(expected, float(own.max() / total))
    found = largest_share(capped, at_risk, Scaling.none(1), LINKS[link], alpha, np.ones(1))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("seed", range(10))
def test_a_large_coefficient_singles_out_the_extreme_patient(link: str, seed: int) -> None:
    cohort = simulated(patients=200, seed=seed)
    direction = np.random.default_rng(seed).normal(size=cohort.columns)
    direction /= np.linalg.norm(direction)
    assert share(cohort, 0.3 * direction, link=link) < 0.2
    huge = 1e6 * direction
    rare = -2.0 - float((cohort.covariates @ huge).max())
    assert share(cohort, huge, link=link, alpha=rare) > 0.99


@pytest.mark.parametrize("link", LINK_NAMES)
@given(seed=seeds)
def test_so_does_a_hazard_near_one_for_all_but_one(link: str, seed: int) -> None:
    cohort = simulated(patients=200, seed=seed)
    covariates = cohort.covariates.copy()
    lowest = int(covariates[:, 0].argmin())
    covariates[lowest, 0] -= 1.0  # no other comes near
    apart = Cohort(covariates, cohort.time, cohort.event)
    alone = 1.0 - 40.0 * covariates[lowest, 0]
    assert share(apart, np.array([40.0, 0.0, 0.0]), link=link, alpha=alone) > 0.99


def test_one_far_off_value_is_enough_for_a_small_coefficient() -> None:
    cohort = simulated(patients=500, seed=3)
    covariates = cohort.covariates.copy()
    covariates[7, 0] = 60.0
    outlier = Cohort(covariates, cohort.time, cohort.event)
    beta = np.array([0.25, 0.0, 0.0])
    assert share(cohort, beta) < 0.05
    assert share(outlier, beta) > 0.5


def far_off(patient: int, value: float, patients: int = 500) -> Cohort:
    cohort = simulated(patients=patients, seed=3)
    covariates = cohort.covariates.copy()
    covariates[patient, 0] = value
    return Cohort(covariates, cohort.time, cohort.event)


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("interval", [0, GRID.intervals - 1])
def test_no_other_interval_hides_a_patient(link: str, interval: int) -> None:
    """Two questions that differ in this interval's α alone show its sum by itself."""
    longest = int(np.argmax(simulated(patients=500, seed=3).time))
    beta = np.array([1.0, 0.0, 0.0])
    screened = np.full(GRID.intervals, 15.0)
    screened[interval] = -15.0
    for value, dominates in ((0.0, False), (18.0, True)):
        cohort = far_off(longest, value)
        scaling = Scaling.none(cohort.columns)
        found = largest_share(cohort, placed(cohort), scaling, LINKS[link], screened, beta)
        assert (found > 0.99) == dominates
        assert dominates or found < 0.5


def test_a_patient_between_hazards_of_zero_and_one_is_seen() -> None:
    """Slopes are spread over many; what α changes in them, and information, is one's."""
    cohort = simulated(patients=300, seed=1)
    covariates = np.where(np.arange(300) % 2, 20.0, -20.0)[:, None]
    scattered = Cohort(covariates, cohort.time, cohort.event)
    assert share(scattered, np.ones(1), alpha=0.0, link="logit") < 0.1
    covariates[int(np.argmax(cohort.time)), 0] = 0.0
    between = Cohort(covariates, cohort.time, cohort.event)
    assert share(between, np.ones(1), alpha=0.0, link="logit") > 0.99


def test_an_event_that_alone_has_a_slope_is_seen() -> None:
    """Without the event costs grow in proportion to the hazard, and can be taken away."""
    cohort = simulated(patients=300, seed=1)
    once = TimeGrid.regular(150.0, 150.0).at_risk(cohort.time, cohort.event, "include")
    covariates = np.where(once.event, 10.0, 0.0)[:, None]
    for value, dominates in ((10.0, False), (0.0, True)):
        covariates[np.flatnonzero(once.event)[0]] = value
        alone = Cohort(covariates, cohort.time, cohort.event)
        point = np.array([-2.0]), np.ones(1)
        found = largest_share(alone, once, Scaling.none(1), LINKS["cloglog"], *point)
        assert found > 0.99 if dominates else found < 0.05


@given(seed=seeds, patients=st.integers(20, 80), level=st.floats(-10, 3))
def test_without_effects_few_at_risk_have_no_large_share(
    seed: int, patients: int, level: float
) -> None:
    """A fit starts there, and the last intervals have few patients at risk."""
    cohort = simulated(patients=patients, seed=seed)
    assert share(cohort, np.zeros(3), alpha=level) <= 0.25


@given(seed=seeds, factor=st.floats(1e-6, 1e6))
def test_a_scale_that_is_not_the_patients_changes_nothing(seed: int, factor: float) -> None:
    """A coordinator who claims another spread can hide the length of β, and not the share."""
    cohort = simulated(patients=60, seed=seed)
    beta = np.random.default_rng(seed).normal(size=cohort.columns)
    claimed = Scaling(np.arange(3), np.full(3, 5.0), np.full(3, factor))
    level = float(5.0 * beta.sum())
    same = share(cohort, factor * beta, scaling=claimed, alpha=-2.0 + level)
    assert same == pytest.approx(share(cohort, beta), rel=1e-6)


def test_of_some_rows_only_these_count() -> None:
    cohort = simulated(patients=60)
    assert share(cohort, np.zeros(3), rows=np.array([4])) == 1.0
    assert share(cohort, np.zeros(3), rows=np.arange(0)) == 0.0


def test_many_patients_are_looked_at_in_parts() -> None:
    cohort = simulated(patients=30_000)
    at_risk = placed(cohort)
    events = np.bincount(at_risk.intervals[at_risk.event])[1:]
    assert events.min() > 40
    assert share(cohort, np.zeros(3)) == pytest.approx(1 / events.min(), rel=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_parameters_that_are_no_numbers_have_no_share(value: float) -> None:
    assert np.isnan(share(simulated(patients=30), np.full(3, value)))


def test_missing_values_count_as_the_joint_mean() -> None:
    cohort = simulated(patients=60)
    covariates = cohort.covariates.copy()
    covariates[5, 1] = np.nan
    filled = covariates.copy()
    filled[5, 1] = 0.0
    beta = np.array([1.0, -2.0, 0.5])
    with_gap = share(Cohort(covariates, cohort.time, cohort.event), beta)
    assert with_gap == share(Cohort(filled, cohort.time, cohort.event), beta)
