from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy import stats

from fedcox.evaluation.comparison import REPLICATES, Comparison, compare, t_interval
from fedcox.evaluation.result import Evaluation, Row
from fedcox.survival.cohort import FloatArray


def row(
    scheme: str,
    c_index: float | None,
    *,
    seed: int = 0,
    test_set: int | str = 1,
    patients: int = 20,
    trained_on: int = 80,
    notes: tuple[str, ...] = (),
) -> Row:
    left_out = isinstance(test_set, str)
    evaluation: Evaluation = "left out" if left_out else "folds"
    return Row(
        experiment="made up",
        seed=seed,
        evaluation=evaluation,
        fold=None if isinstance(test_set, str) else test_set,
        center=test_set if isinstance(test_set, str) else None,
        scheme=scheme,
        c_index=c_index,
        patients=patients,
        events=9,
        trained_on=trained_on,
        seconds=1.5,
        rounds=3,
        bytes_up=800,
        bytes_down=80,
        notes=notes,
    )


def rows_of(values: dict[str, FloatArray], *, centers: bool = False) -> list[Row]:
    """`values` is (seeds, test sets) for each scheme."""
    return [
        row(scheme, float(index), seed=seed, test_set=f"c{place}" if centers else place + 1)
        for scheme, table in values.items()
        for seed, indices in enumerate(table)
        for place, index in enumerate(indices)
    ]


def only(found: tuple[Comparison, ...]) -> Comparison:
    (comparison,) = found
    return comparison


@pytest.fixture
def tables() -> dict[str, FloatArray]:
    rng = np.random.default_rng(3)
    luck = rng.normal(0.7, 0.05, (4, 5))
    return {
        "POOL": luck,
        "DT-FL": luck + rng.normal(0.01, 0.02, (4, 5)),
        "LOCAL": luck + rng.normal(-0.1, 0.02, (4, 5)),
    }


def test_a_scheme_is_summed_up_by_mean_and_deviations_over_folds_and_runs(
    tables: dict[str, FloatArray],
) -> None:
    comparison = only(compare(rows_of(tables)))
    assert [summary.scheme for summary in comparison.schemes] == list(tables)
    assert comparison.seeds == 4
    assert comparison.test_sets == 20
    for summary in comparison.schemes:
        table = tables[summary.scheme]
        assert summary.mean == pytest.approx(table.mean(), rel=1e-14)
        assert summary.sd == pytest.approx(table.std(ddof=1), rel=1e-12)
        assert summary.sd_of_runs == pytest.approx(table.mean(axis=1).std(ddof=1), rel=1e-12)
        assert (summary.test_sets, summary.without_index) == (20, 0)
        assert (summary.seconds, summary.rounds, summary.bytes_up) == (1.5, 3, 800)


def test_folds_of_the_same_patients_have_nadeau_and_bengios_interval(
    tables: dict[str, FloatArray],
) -> None:
    comparison = only(compare(rows_of(tables)))
    assert comparison.replicates == "folds"
    found = comparison.difference("DT-FL", "POOL")
    assert found is not None
    gains = (tables["DT-FL"] - tables["POOL"]).ravel()
    # Their corrected variance, written out: (1/J + n₂/n₁) s², with n₂/n₁ = 20/80.
    spread = np.sqrt((1 / 20 + 20 / 80) * gains.var(ddof=1))
    low, high = stats.t.interval(0.95, 19, loc=gains.mean(), scale=spread)
    assert found.mean == pytest.approx(gains.mean(), abs=1e-15)
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)
    assert (found.pairs, found.replicates) == (20, 20)


def test_runs_with_patients_of_their_own_have_students_interval_over_runs(
    tables: dict[str, FloatArray],
) -> None:
    comparison = only(compare(rows_of(tables), drawn_anew=True))
    assert comparison.replicates == "runs"
    found = comparison.difference("LOCAL", "POOL")
    assert found is not None
    means = (tables["LOCAL"] - tables["POOL"]).mean(axis=1)
    interval = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(interval.low, rel=1e-10)
    assert found.high == pytest.approx(interval.high, rel=1e-10)
    assert (found.pairs, found.replicates) == (20, 4)


def test_one_run_of_simulated_patients_is_corrected_like_any_other(
    tables: dict[str, FloatArray],
) -> None:
    once = {scheme: table[:1] for scheme, table in tables.items()}
    assert compare(rows_of(once), drawn_anew=True) == compare(rows_of(once))


def test_centers_left_out_have_students_interval_over_centers(
    tables: dict[str, FloatArray],
) -> None:
    comparison = only(compare(rows_of(tables, centers=True)))
    assert comparison.evaluation == "left out"
    assert comparison.replicates == "centers"
    found = comparison.difference("DT-FL", "POOL")
    assert found is not None
    by_center = [table.mean(axis=0) for table in (tables["DT-FL"], tables["POOL"])]
    interval = stats.ttest_rel(*by_center).confidence_interval(0.95)
    assert found.low == pytest.approx(interval.low, rel=1e-10)
    assert found.high == pytest.approx(interval.high, rel=1e-10)
    assert (found.pairs, found.replicates) == (20, 5)


def test_every_pair_is_compared_once_later_minus_earlier(
    tables: dict[str, FloatArray],
) -> None:
    comparison = only(compare(rows_of(tables)))
    pairs = [(pair.scheme, pair.reference) for pair in comparison.differences]
    assert pairs == [("DT-FL", "POOL"), ("LOCAL", "POOL"), ("LOCAL", "DT-FL")]
    assert comparison.difference("POOL", "DT-FL") is None


def test_both_evaluations_are_kept_apart(tables: dict[str, FloatArray]) -> None:
    rows = rows_of(tables) + rows_of(tables, centers=True)
    assert [one.evaluation for one in compare(rows)] == ["folds", "left out"]


def test_a_test_set_without_an_index_counts_in_no_mean_and_no_pair() -> None:
    rows = [
        row("POOL", 0.6, test_set=1),
        row("POOL", None, test_set=2, notes=("No event.",)),
        row("POOL", 0.8, test_set=3),
        row("LOCAL", 0.5, test_set=1),
        row("LOCAL", 0.9, test_set=2),
        row("LOCAL", 0.75, test_set=3),
    ]
    comparison = only(compare(rows))
    pool, local = comparison.schemes
    assert pool.mean == pytest.approx(0.7)
    assert (pool.test_sets, pool.without_index) == (2, 1)
    assert pool.sd == pytest.approx(stdev([0.6, 0.8]))
    assert local.mean == pytest.approx(fmean([0.5, 0.9, 0.75]))
    (difference,) = comparison.differences
    assert difference.pairs == 2
    assert difference.mean == pytest.approx(fmean([-0.1, -0.05]))
    (note,) = comparison.notes
    assert (note.scheme, note.text, note.test_sets) == ("POOL", "No event.", 1)


def test_one_test_set_has_no_deviation_and_no_interval() -> None:
    comparison = only(compare([row("POOL", 0.6), row("LOCAL", 0.5)]))
    assert comparison.schemes[0].sd is None
    assert comparison.schemes[0].sd_of_runs is None
    (difference,) = comparison.differences
    assert difference.mean == pytest.approx(-0.1)
    assert (difference.low, difference.high) == (None, None)


def test_a_scheme_without_any_index_has_no_numbers() -> None:
    comparison = only(compare([row("POOL", 0.6), row("LOCAL", None)]))
    assert comparison.schemes[1].mean is None
    (difference,) = comparison.differences
    assert difference.mean is None
    assert (difference.low, difference.high, difference.pairs) == (None, None, 0)


def test_a_note_is_counted_once_for_each_test_set() -> None:
    rows = [
        row("POOL", 0.6, test_set=fold, notes=("Slow.", "Slow.", f"Fold {fold}."))
        for fold in (1, 2)
    ]
    notes = only(compare(rows)).notes
    counted = {note.text: note.test_sets for note in notes}
    assert counted == {"Slow.": 2, "Fold 1.": 1, "Fold 2.": 1}


def test_what_an_interval_assumes_is_said_for_every_kind() -> None:
    assert set(REPLICATES) == {"folds", "centers", "runs"}
    assert "few" in REPLICATES["centers"]
    assert "corrected" in REPLICATES["folds"]


# Simulations: is 95 % what it says?


def coverage(values: FloatArray, truth: float, *, tested_to_trained: float) -> float:
    """How often the interval of a row of `values` holds the truth."""
    found = [t_interval(row, tested_to_trained=tested_to_trained) for row in values]
    held = [one.low is not None and one.low <= truth <= (one.high or 0) for one in found]
    return float(np.mean(held))


def test_under_the_correlation_it_assumes_the_corrected_interval_is_exact() -> None:
    rng = np.random.default_rng(0)
    studies, test_sets, share = 4000, 20, 0.2
    shared = rng.normal(size=(studies, 1)) * np.sqrt(share)
    own = rng.normal(size=(studies, test_sets)) * np.sqrt(1 - share)
    values = 0.3 + shared + own
    assert coverage(values, 0.3, tested_to_trained=0.25) == pytest.approx(0.95, abs=0.012)
    assert coverage(values, 0.3, tested_to_trained=0.0) < 0.65


def test_in_real_cross_validation_a_plain_interval_is_too_short_and_this_one_is_not() -> None:
    """Two learners that are as good as each other: one looks at x₁, the other at x₂."""
    rng = np.random.default_rng(1)
    studies, patients, folds, runs = 500, 50, 5, 4
    gains = np.empty((studies, runs * folds))
    for study in range(studies):
        x = rng.normal(size=(patients, 2))
        y = x.sum(axis=1) + rng.normal(size=patients)
        for run in range(runs):
            fold = rng.permutation(patients) % folds
            for number in range(folds):
                test = fold == number
                slope = (x[~test] * y[~test, None]).sum(axis=0) / (x[~test] ** 2).sum(axis=0)
                errors = ((y[test, None] - x[test] * slope) ** 2).mean(axis=0)
                gains[study, run * folds + number] = errors[0] - errors[1]
    plain = coverage(gains, 0.0, tested_to_trained=0.0)
    corrected = coverage(gains, 0.0, tested_to_trained=10 / 40)
    assert plain < 0.70
    assert corrected == pytest.approx(0.95, abs=0.025)


def test_test_sets_with_few_events_are_counted_where_they_gave_an_index() -> None:
    events = {"a": 5, "b": 4, "c": 1, "d": 0}
    found = [
        replace(
            row(scheme, None if center == "d" else 0.6, seed=seed, test_set=center),
            events=events[center],
        )
        for scheme in ("POOL", "DT-FL")
        for seed in (0, 1)
        for center in events
    ]
    assert only(compare(found)).few_events == 4  # b and c, in two runs
