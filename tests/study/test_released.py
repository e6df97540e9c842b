"""What leaves for a file: few digits, and no prediction or contrast that differs by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcox
from fedcox.study.fitted import FittedStudy
from fedcox.study.inference import estimated
from fedcox.study.released import released
from tests import fitted_examples as examples

NOISE = {"privacy": {"noise": {"epsilon": 1000, "patients": 600}}}


def patients(size: int = 600, seed: int = 0) -> pd.DataFrame:
    """Two columns that nearly say the same, and a year far from zero."""
    rng = np.random.default_rng(seed)
    year = rng.integers(2010, 2024, size)
    marker = rng.normal(0.0, 1.0, size)
    time = rng.exponential(100.0 * np.exp(-0.3 * marker), size)
    return pd.DataFrame(
        {
            "year": year,
            "marker": marker.clip(-4, 4),
            "again": (marker + rng.normal(0.0, 0.1, size)).clip(-4, 4),
            "days": np.ceil(np.minimum(time, 300.0)),
            "died": (time < 300.0).astype(int),
        }
    )


def study(**tables: object) -> fedcox.Study:
    ranges = {"year": (2000, 2030), "marker": (-4, 4), "again": (-4, 4)}
    return fedcox.Study(
        outcome={"time": "days", "event": "died", "unit": "days"},
        covariates={
            name: {"type": "number", "min": low, "max": high}
            for name, (low, high) in ranges.items()
        },
        **{"grid": {"pieces": 8, "horizon": 300}, **tables},
    )


def fitted_to(frame: pd.DataFrame, **tables: object) -> FittedStudy:
    plan = study(**tables)
    return fedcox.fit(plan, fedcox.InProcess.from_frame(plan, {"A": frame}))


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 12),
    alike=st.floats(0.0, 5.0),
    scale=st.floats(-4.0, 4.0),
)
@settings(max_examples=150)
def test_no_combination_of_coefficients_moves_by_its_error(
    seed: int, size: int, alike: float, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, size)) * 10.0 ** rng.uniform(-alike, 0.0, size)
    spread = 10.0 ** (scale + rng.uniform(-2.0, 2.0, size))
    covariance = (factor @ factor.T + 10.0 ** (-2 * alike - 1) * np.eye(size)) * np.outer(
        spread, spread
    )
    errors = np.sqrt(np.diag(covariance))
    coef = errors * rng.normal(0.0, 3.0, size)
    rows = [
        estimated(f"x{i}", *pair, mean=0.0, sd=1.0)
        for i, pair in enumerate(zip(coef.tolist(), errors.tolist(), strict=True))
    ]
    given_fit = replace(
        examples.lung(), coefficients=tuple(rows), coefficient_covariance=covariance
    )
    found = released(given_fit)
    moved = np.array([row.coef for row in found.coefficients]) - coef
    # The combination that moves most, in its own standard errors.
    assert np.sqrt(moved @ np.linalg.solve(covariance, moved)) <= 5.1e-4
    kept = found.coefficient_covariance
    assert kept is not None
    half = np.linalg.inv(np.linalg.cholesky(covariance))
    apart = np.linalg.eigvalsh(half @ (kept - covariance) @ half.T)
    assert np.abs(apart).max() <= 5.1e-4
    for row, before in zip(found.coefficients, rows, strict=True):
        assert row.se == pytest.approx(before.se, rel=5.1e-4)


@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
@pytest.mark.parametrize("tables", [{}, NOISE, {"model": {"link": "cloglog"}}])
def test_what_is_rounded_once_stays_as_it_is(tables: dict[str, object]) -> None:
    if "model" in tables:
        tables = {**tables, "grid": {"width": 30, "horizon": 300}}
    once = released(fitted_to(patients(), **tables))
    twice = released(once)
    assert twice.coefficients == once.coefficients
    assert [twice.likelihood_ratio, twice.convergence] == [
        once.likelihood_ratio,
        once.convergence,
    ]
    for row, again in zip(once.baseline, twice.baseline, strict=True):
        assert again.alpha == pytest.approx(row.alpha, abs=1e-9)


@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
@pytest.mark.parametrize("tables", [{}, NOISE])
def test_a_prediction_from_the_file_is_that_of_the_fit(
    tables: dict[str, object], tmp_path: Path
) -> None:
    frame = patients()
    fitted = fitted_to(frame, **tables)
    fitted.save(tmp_path / "fit.json")
    back = FittedStudy.read(tmp_path / "fit.json")
    new, times = frame.head(50), [30.0, 100.0, 300.0]
    ours, theirs = (one.predict_survival(new, times).to_numpy() for one in (fitted, back))
    assert not np.array_equal(ours, theirs)
    bands = fitted.predict_survival_band(new, times)
    assert bands is not None
    width = (bands[1] - bands[0]).to_numpy()
    assert np.abs((ours - theirs) / width).max() < 1e-3
    again = back.predict_survival_band(new, times)
    assert again is not None
    for one, other in zip(bands, again, strict=True):
        assert np.abs((one.to_numpy() - other.to_numpy()) / width).max() < 2e-3


def test_two_studies_that_differ_by_a_patient_differ_by_few_steps(tmp_path: Path) -> None:
    """What is left of the patient is told in whole steps, not in 52 bits."""
    frame, texts = patients(), []
    for number, part in enumerate((frame, frame.drop(index=7))):
        fitted_to(part).save(tmp_path / f"{number}.json")
        texts.append(json.loads((tmp_path / f"{number}.json").read_text()))
    one, other = texts
    for row, beside in zip(one["coefficients"], other["coefficients"], strict=True):
        assert abs(row["coef"] - beside["coef"]) < 1e4 * 1e-4 * row["se"]
        for value in (row["coef"], row["se"], row["mean"], row["sd"]):
            assert len(f"{value:.15g}".strip("-0.").replace(".", "")) <= 8
    for key in ("log_likelihood", "null_log_likelihood"):
        assert one[key] == round(one[key], 3)
    assert all(row["loss"] == round(row["loss"], 3) for row in one["convergence"])


def test_a_fit_in_memory_keeps_its_digits() -> None:
    fitted = fitted_to(patients())
    rounded = released(fitted)
    assert rounded.summary["coef"].tolist() != fitted.summary["coef"].tolist()
    assert rounded.patients == fitted.patients
    assert rounded.centers == fitted.centers
    assert fitted.log_likelihood != round(fitted.log_likelihood, 6)
    assert rounded.log_likelihood == round(fitted.log_likelihood, 3)


@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
def test_a_standard_error_has_four_digits_and_a_mean_under_noise_six() -> None:
    rows = released(fitted_to(patients(), **NOISE)).estimated
    for row in rows:
        assert row.se == float(f"{row.se:.3e}")
        assert row.mean == float(f"{row.mean:.5e}")
    assert any(row.mean != float(f"{row.mean:.4e}") for row in rows)
