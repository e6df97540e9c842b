from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lifelines import CoxPHFitter
from rich.console import Console

from benchmarks import truth as module
from benchmarks.data_sets import DATA_SETS, NotHereError, RealCohort
from benchmarks.patients import FloatArray
from benchmarks.truth import (
    FACTORS,
    RESULT,
    SETTINGS,
    Comparison,
    Estimate,
    Rescaling,
    Truth,
    compare,
    cox,
    main,
    r_difference,
    rescale,
)

ONE_TABLE, SECURE_SUMS = SETTINGS
#: They come with packages that the tests need anyway.
AT_HAND = {"lung": (226, 163), "veteran": (137, 128), "rossi": (432, 114), "gbsg2": (686, 299)}
HELD = Comparison("lung", ONE_TABLE.name, 226, 163, 137, 0.02, 0.004, 0.01)
STEADY = Rescaling("lung", 365.25, 1e-12, 0.001)
STORED = Truth("2026-01-01", {}, {"lung": 1e-9}, [HELD], [STEADY], {})

default_model = pytest.mark.skipif(
    not RESULT.exists(), reason="python -m benchmarks.truth has not been run and stored"
)


@cache
def cohort(name: str) -> tuple[RealCohort, Estimate]:
    patients = DATA_SETS[name].load()
    return patients, cox(patients)


@pytest.mark.parametrize("name", AT_HAND)
def test_a_data_set_has_the_patients_and_events_it_is_known_for(name: str) -> None:
    patients, _ = cohort(name)
    assert (len(patients.time), int(patients.event.sum())) == AT_HAND[name]
    assert patients.frame.notna().all(axis=None)
    assert np.linalg.matrix_rank(patients.covariates) == patients.covariates.shape[1]


def test_a_category_is_an_indicator_for_each_level_but_the_first() -> None:
    patients, _ = cohort("gbsg2")
    names = [name for name in map(str, patients.covariates) if name.startswith("tgrade")]
    assert names == ["tgrade_II", "tgrade_III"]
    assert set(np.unique(patients.covariates[names])) == {0.0, 1.0}


def test_seven_centers_are_unequal_and_the_same_in_every_run() -> None:
    patients, _ = cohort("gbsg2")
    sizes = patients.centers().value_counts()
    assert len(sizes) == 7
    assert sizes.iloc[0] / sizes.iloc[-1] > 10
    assert sizes.sum() == len(patients.time)
    assert patients.centers().equals(patients.centers())


def lifelines_curve(patients: RealCohort) -> tuple[FloatArray, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' own
        model = CoxPHFitter().fit(patients.frame, "time", "event")
        curve = model.predict_survival_function(patients.mean, times=patients.deciles)
        return curve.to_numpy()[:, 0], float(model.predict_median(patients.mean))


def test_without_ties_the_truth_is_lifelines_curve_too() -> None:
    patients, _ = cohort("lung")
    apart = patients.time + np.random.default_rng(3).permutation(len(patients.time)) / 1000
    patients = replace(patients, time=apart)
    truth = cox(patients)
    survival, median = lifelines_curve(patients)
    assert truth.survival == pytest.approx(survival, abs=1e-6)
    assert truth.median == median


def test_with_ties_the_curve_of_lifelines_is_breslows_and_lies_higher() -> None:
    patients, truth = cohort("veteran")
    survival, median = lifelines_curve(patients)
    assert (survival > truth.survival).all()
    assert (truth.median, median) == (80, 82)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no Rscript")
@pytest.mark.parametrize("name", ["veteran", "rossi"])
def test_the_truth_is_that_of_r_curve_and_ties_included(name: str) -> None:
    patients, truth = cohort(name)
    try:
        difference = r_difference(patients, truth)
    except NotHereError as error:  # R without its survival package
        pytest.skip(str(error))
    assert difference < 1e-6
    off = replace(truth, survival=truth.survival + 0.01)
    assert r_difference(patients, off) == pytest.approx(0.01, abs=1e-6)


def test_grouped_time_on_a_wide_grid_falls_short_by_far() -> None:
    patients, truth = cohort("veteran")
    grouped = {"grid": {"width": 90}, "model": {"link": "cloglog"}}
    result = compare(patients, truth, replace(ONE_TABLE, study=grouped))
    assert result.coefficient is not None
    assert result.coefficient > 1.5
    assert result.survival is not None
    assert result.survival > 0.4  # nobody dies before day 90
    assert not result.held(ONE_TABLE)


def test_grouped_time_on_a_fine_grid_comes_near() -> None:
    patients, truth = cohort("rossi")
    grouped = {"grid": {"width": 1}, "model": {"link": "cloglog"}}
    result = compare(patients, truth, replace(ONE_TABLE, study=grouped))
    assert result.held(ONE_TABLE)
    assert result.median is None  # Cox's curve ends above a half


@pytest.mark.parametrize(
    "change", [{"coefficient": 0.11}, {"survival": 0.016}, {"median": 0.031}, {"fault": "none"}]
)
def test_one_limit_not_held_is_enough_to_fall_short(change: dict[str, Any]) -> None:
    assert HELD.held(ONE_TABLE)
    assert not replace(HELD, **change).held(ONE_TABLE)
    assert not replace(STORED, comparisons=[replace(HELD, **change)]).held


def test_what_a_fit_does_not_give_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    patients, truth = cohort("lung")
    holes = Estimate(
        np.append(np.nan, truth.coefficients[1:]),
        truth.errors,
        np.append(truth.survival[:-1], np.nan),
    )
    monkeypatch.setattr(module, "fedcox_fit", lambda *_, **__: holes)
    result = compare(patients, truth, ONE_TABLE)
    assert result.fault == "a coefficient is missing, no survival at a decile, no median"
    assert (result.coefficient, result.survival, result.median) == (None, None, None)
    # Under secure sums there is no limit on the median.
    assert "median" not in compare(patients, truth, SECURE_SUMS).fault


def test_a_refused_study_is_a_fault_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    patients, truth = cohort("lung")
    result = compare(patients, truth, replace(ONE_TABLE, study={"grid": {"width": -1}}))
    assert result.fault.startswith("StudyError: ")
    assert "[grid] width" in result.fault
    assert not result.held(ONE_TABLE)
    stored = replace(STORED, comparisons=[result])
    next(iter(stored.tables())).show(Console(width=400))
    assert "[grid] width" in capsys.readouterr().out


def test_times_horizon_and_resolution_are_scaled_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patients, truth = cohort("rossi")
    seen: list[tuple[float, float | None, dict[str, float]]] = []

    def fit(patients: RealCohort, resolution: float | None = None, **study: Any) -> Estimate:
        seen.append((patients.time.max(), resolution, study.get("grid", {})))
        moved = 0.0 if resolution is not None else patients.time.max() / 1e6
        return replace(truth, coefficients=truth.coefficients + moved * truth.errors)

    monkeypatch.setattr(module, "fedcox_fit", fit)
    days, thousands = rescale(patients, truth)
    assert (52 * 365.25, 365.25, {"horizon": 52 * 365.25}) in seen
    assert (52 * 365.25, None, {}) in seen
    assert (days.stated, thousands.stated) == (0, 0)
    assert days.unstated == pytest.approx(52 * 364.25 / 1e6)
    assert days.held
    assert not replace(days, stated=2e-9).held
    assert not replace(days, unstated=0.06).held
    assert not replace(days, unstated=None).held


def test_a_run_is_written_read_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "truth.json"
    STORED.write(file)
    assert Truth.read(file) == STORED
    assert main(["--markdown", "--out", str(file)]) == 0
    assert (
        "| lung | 226 | 163 | 137 | 0.020 | 0.0040 | 1.0 % | held |" in capsys.readouterr().out
    )


def test_the_command_fails_where_a_limit_is_not_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {
        "good": STORED,
        "far": replace(STORED, comparisons=[replace(HELD, survival=0.5)]),
        "moved": replace(STORED, rescalings=[replace(STEADY, stated=1e-3)]),
        "no oracle": replace(STORED, r_differences={"lung": 0.01}),
    }
    for name, run in runs.items():
        monkeypatch.setattr(module, "measure", lambda *_, run=run: run)
        file = tmp_path / f"{name}.json"
        assert main(["--data", "lung", "--out", str(file)]) == (0 if name == "good" else 1)
        assert Truth.read(file) == run
    assert "short" in capsys.readouterr().out


def test_a_data_set_of_r_is_left_out_with_a_word_where_there_is_no_r(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert main(["--data", "pbc"]) == 0
    assert "pbc left out: no Rscript." in capsys.readouterr().out


def test_unknown_data_are_refused_with_the_names_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--data", "lungs"])
    assert "support2" in capsys.readouterr().err


@default_model
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("name", ["lung", "rossi", "gbsg2"])
def test_default_settings_are_efrons_cox(name: str, setting: module.Setting) -> None:
    result = compare(*cohort(name), setting)
    assert result.held(setting), result


@default_model
def test_another_unit_of_time_changes_no_coefficient() -> None:
    results = list(rescale(*cohort("lung")))
    assert [each.factor for each in results] == list(FACTORS)
    assert all(each.held for each in results), results


@default_model
def test_the_stored_run_holds_every_limit_but_one_curve() -> None:
    stored = Truth.read(RESULT)
    assert not stored.left_out
    assert set(stored.r_differences) == set(DATA_SETS)
    assert max(stored.r_differences.values()) <= 1e-4
    for setting, coefficient, survival in ((ONE_TABLE, 0.1, 0.015), (SECURE_SUMS, 0.4, 0.035)):
        results = stored.comparisons_of(setting)
        assert [each.data for each in results] == list(DATA_SETS)
        for each in results:
            assert not each.fault
            assert each.coefficient is not None
            assert each.coefficient <= coefficient
            assert each.survival is not None
            # Seven pieces for 81 events: a curve is straighter between their edges than Cox's.
            short = (each.data, setting) == ("bone marrow", SECURE_SUMS)
            assert (each.survival > survival) is short
    medians = {each.data: each.median for each in stored.comparisons_of(ONE_TABLE)}
    reached = {name: median for name, median in medians.items() if median is not None}
    assert set(medians) - set(reached) == {"rossi", "Framingham", "nwtco", "rhDNase"}
    assert max(reached.values()) <= 0.03
    assert len(stored.rescalings) == len(DATA_SETS) * len(FACTORS)
    for change in stored.rescalings:
        assert change.stated is not None
        assert change.stated <= 1e-9
        assert change.unstated is not None
        assert change.unstated <= 0.05
