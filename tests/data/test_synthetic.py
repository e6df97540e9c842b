from __future__ import annotations

from typing import cast, get_args

import numpy as np
import pytest

from fedcox.data.synthetic import (
    Split,
    paper_table,
    simulate_hospitals,
    simulate_paper_cohort,
    split_by_dirichlet,
    split_by_value,
    split_cohort,
    split_uniformly,
    unequal_sizes,
)
from fedcox.errors import InputError


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_papers_covariates_have_unit_expected_norm() -> None:
    covariates = simulate_paper_cohort(4000, 20, rng=generator()).cohort.covariates
    assert (covariates**2).sum(axis=1).mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("bound", ["patient", "population"])
def test_nobody_is_followed_beyond_the_named_median(bound: str) -> None:
    simulated = simulate_paper_cohort(
        2000,
        5,
        rng=generator(),
        censoring_bound="patient" if bound == "patient" else "population",
    )
    cohort = simulated.cohort
    hazard = np.exp(cohort.covariates @ simulated.coefficients)
    median = np.log(2) / hazard
    assert (cohort.time > 0).all()
    if bound == "patient":
        assert (cohort.time <= median).all()
    else:
        assert (cohort.time > median).any()
        latest = cohort.time.max()  # below the time by which half have had the event
        assert 0.45 < (1 - np.exp(-latest * hazard)).mean() <= 0.5


def test_with_each_patients_own_median_the_share_of_events_is_known() -> None:
    # P(event) = E[1 − 2^(−U)] with U uniform on (0, 1) = 1 − 1 / (2 ln 2).
    event = simulate_paper_cohort(40_000, 3, rng=generator()).cohort.event
    assert event.mean() == pytest.approx(1 - 1 / (2 * np.log(2)), abs=0.01)


def test_the_same_seed_gives_the_same_hospitals() -> None:
    first = simulate_hospitals(200, 4, rng=generator(3)).frame
    assert first.equals(simulate_hospitals(200, 4, rng=generator(3)).frame)
    assert not first.equals(simulate_hospitals(200, 4, rng=generator(4)).frame)


def test_simulated_hospitals_look_like_a_clinical_study() -> None:
    simulated = simulate_hospitals(1500, 5, rng=generator())
    frame = simulated.frame
    assert list(frame) == [
        "patient",
        "hospital",
        "age",
        "sex",
        "stage",
        "marker",
        "time",
        "status",
    ]
    assert frame["patient"].is_unique
    assert set(frame["sex"]) == {"female", "male"}
    assert set(frame["stage"]) == {"I", "II", "III", "IV"}
    assert frame["time"].min() >= 1
    assert frame["time"].dtype == np.int64
    assert 0.3 < frame["status"].mean() < 0.7
    sizes = frame["hospital"].value_counts()
    assert len(sizes) == 5
    assert sizes.max() > 1.5 * sizes.min()
    assert frame.groupby("hospital")["age"].mean().max() > frame["age"].mean() + 0.5


def test_late_stages_die_earlier() -> None:
    frame = simulate_hospitals(3000, 5, rng=generator()).frame
    rate = frame.groupby("stage")["status"].sum() / frame.groupby("stage")["time"].sum()
    assert rate["I"] < rate["II"] < rate["III"] < rate["IV"]


def test_names_of_many_hospitals_sort_like_their_numbers() -> None:
    names = simulate_hospitals(40, 12, rng=generator()).frame["hospital"].unique()
    assert list(names) == sorted(names)
    assert names[-1] == "hospital_12"


def test_a_uniform_split_has_equal_centers() -> None:
    counts = np.bincount(split_uniformly(11, 3, rng=generator()))
    assert sorted(counts) == [3, 4, 4]


def test_a_split_by_time_puts_the_shortest_follow_up_first() -> None:
    time = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    np.testing.assert_array_equal(split_by_value(time, 3), [2, 0, 1, 0, 1, 2])


@pytest.mark.parametrize(("patients", "centers"), [(1500, 5), (7, 7), (100, 40), (1, 1)])
def test_unequal_centers_share_out_everybody_and_are_never_empty(
    patients: int, centers: int
) -> None:
    sizes = unequal_sizes(patients, centers, rng=generator())
    assert sizes.sum() == patients
    assert sizes.min() >= 1


def test_the_papers_table_carries_split_and_truth() -> None:
    simulated = simulate_paper_cohort(9, 2, rng=generator())
    table = paper_table(simulated, split_by_value(simulated.cohort.time, 3))
    assert list(table.frame) == ["patient", "hospital", "time", "status", "x1", "x2"]
    assert list(table.log_hazard_ratios.values()) == simulated.coefficients.tolist()
    last = table.frame.groupby("hospital")["time"].max()
    assert last.is_monotonic_increasing


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(InputError, match="3 patients for 5 centers"):
        simulate_hospitals(3, 5, rng=generator())
    with pytest.raises(InputError, match="cannot be simulated"):
        simulate_paper_cohort(10, 0, rng=generator())


def test_every_named_split_gives_every_center_a_patient() -> None:
    cohort = simulate_paper_cohort(200, 3, rng=np.random.default_rng(0)).cohort
    for split in get_args(Split):
        rng = np.random.default_rng(1)
        hospital = split_cohort(cohort, 7, split, rng=rng, concentration=0.05)
        assert hospital.shape == (200,)
        assert np.array_equal(np.unique(hospital), np.arange(7)), split


def test_splits_by_time_and_covariate_order_the_centers() -> None:
    cohort = simulate_paper_cohort(200, 3, rng=np.random.default_rng(0)).cohort
    rng = np.random.default_rng(1)
    for split, values in (("time", cohort.time), ("covariate", cohort.covariates[:, 0])):
        hospital = split_cohort(cohort, 4, cast(Split, split), rng=rng)
        for center in range(3):
            assert values[hospital == center].max() <= values[hospital == center + 1].min()


def test_a_small_concentration_makes_centers_differ_more() -> None:
    values = np.random.default_rng(0).exponential(size=4000)

    def spread(concentration: float) -> float:
        rng = np.random.default_rng(2)
        hospital = split_by_dirichlet(values, 5, concentration=concentration, rng=rng)
        return float(np.std([values[hospital == center].mean() for center in range(5)]))

    assert spread(0.1) > 5 * spread(1000.0)


def test_a_concentration_must_be_positive() -> None:
    with pytest.raises(InputError, match="cannot be split") as caught:
        split_by_dirichlet(np.arange(9.0), 3, concentration=0.0, rng=np.random.default_rng(0))
    assert "positive" in str(caught.value)
