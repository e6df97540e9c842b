"""The fitted study: its summary, its file, and survival for new patients."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from rich.console import Console

from fedcox.errors import CohortError, InputError, OutputError, StudyError
from fedcox.reports.ratio_table import footer_lines, ratio_table
from fedcox.reports.study_report import report_html
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from tests import fitted_examples as examples

PATIENTS = pd.DataFrame(
    {
        "age": [62.4, 72.4, 52.4],
        "sex": ["male", "female", "male"],
        "ph.ecog": ["0", "1", "2"],
        "wt.loss": [0.0, 10.0, 0.0],
    },
    index=["p", "q", "r"],
)


def test_the_summary_has_lifelines_columns() -> None:
    summary = examples.lung().summary
    assert list(summary.columns) == [
        "coef",
        "exp(coef)",
        "se(coef)",
        "coef lower 95%",
        "coef upper 95%",
        "exp(coef) lower 95%",
        "exp(coef) upper 95%",
        "cmp to",
        "z",
        "p",
        "-log2(p)",
    ]
    assert summary.index.name == "covariate"
    np.testing.assert_allclose(np.exp(summary["coef"]), summary["exp(coef)"])
    np.testing.assert_allclose(
        np.exp(summary["coef upper 95%"]), summary["exp(coef) upper 95%"], rtol=1e-12
    )


def test_a_column_left_out_of_the_fit_has_an_empty_row_in_the_summary() -> None:
    summary = examples.wide().summary
    assert summary.iloc[3].drop("cmp to").isna().all()
    assert summary.iloc[5].notna().all()


@pytest.mark.parametrize(
    "fitted",
    [
        examples.lung(),
        examples.lung(link="logit"),
        examples.wide(),
        examples.nothing_estimable(),
        examples.separated(),
    ],
    ids=["lung", "logit", "wide", "nothing estimable", "separated"],
)
def test_a_saved_fit_reads_back_to_the_last_bit(fitted: FittedStudy, tmp_path: Path) -> None:
    fitted = released(fitted)
    fitted.save(tmp_path / "fit.json")
    back = FittedStudy.read(tmp_path / "fit.json")
    for name in ("centers", "baseline", "convergence", "notices", "coefficients"):
        if name != "coefficients" or fitted.coefficients[0].name != "dose":
            assert getattr(back, name) == getattr(fitted, name), name
    np.testing.assert_array_equal(back.edges, fitted.edges)
    assert back.study == fitted.study
    assert back.study.source == fitted.study.source
    assert (back.link, back.ratio_name) == (fitted.link, fitted.ratio_name)
    assert back.log_likelihood == fitted.log_likelihood
    assert back.likelihood_ratio == fitted.likelihood_ratio
    assert back.versions == fitted.versions
    assert back.ledger == ()


def test_fit_json_holds_neither_nan_nor_infinity(tmp_path: Path) -> None:
    fitted = replace(examples.separated(), null_log_likelihood=math.nan, concordance=math.nan)
    fitted.save(tmp_path / "fit.json")

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    record = json.loads((tmp_path / "fit.json").read_text(), parse_constant=refuse)
    assert record["concordance"] is None
    assert record["coefficients"][1]["ratio_high"] is None
    assert record["baseline"][0]["alpha"] is None
    assert math.isnan(FittedStudy.read(tmp_path / "fit.json").null_log_likelihood)


def test_an_infinite_bound_survives_the_file_as_infinite(tmp_path: Path) -> None:
    fitted = examples.separated()
    fitted.save(tmp_path / "fit.json")
    back = FittedStudy.read(tmp_path / "fit.json")
    assert [row.interval for row in back.coefficients] == [(0.0, math.inf), (0.0, math.inf)]


def unbounded(*names: str) -> FittedStudy:
    """The lung example with these coefficients beyond all bounds."""
    fitted = examples.lung()
    rows = [
        replace(row, name=name, note="separated")
        for row, name in zip(fitted.coefficients, names, strict=False)
    ]
    kept = fitted.coefficients[len(rows) :]
    return replace(fitted, coefficients=(*rows, *kept), rounds=8)


def test_the_ending_says_which_coefficients_have_no_optimum(tmp_path: Path) -> None:
    assert unbounded().ending == "converged in 8 rounds"
    assert replace(unbounded(), rounds=1).ending == "converged in 1 round"
    assert replace(unbounded(), converged=False).ending == "not converged after 8 rounds"
    alone = "the coefficient of dose grows without bound"
    assert unbounded("dose").ending == f"converged in 8 rounds, but {alone}"
    given_up = replace(unbounded("dose"), converged=False)
    assert given_up.ending == f"not converged after 8 rounds, and {alone}"
    assert unbounded("a", "b", "c", "d", "e").ending == (
        "converged in 8 rounds, but the coefficients of a, b, c and 2 more grow without bound"
    )
    assert examples.differentially_private().ending == "did not arrive, 11 noisy sums used"
    unbounded("dose").save(tmp_path / "fit.json")
    record = json.loads((tmp_path / "fit.json").read_text())
    assert record["ending"] == unbounded("dose").ending
    assert FittedStudy.read(tmp_path / "fit.json").ending == record["ending"]


@pytest.mark.parametrize("name", ["dose", "[red]<b>dose</b>[/red]"])
def test_a_separated_fit_is_nowhere_called_converged_without_a_word(name: str) -> None:
    fitted = unbounded(name)
    assert any(fitted.ending in line for line in footer_lines(fitted))
    console = Console(width=200, record=True, file=StringIO())
    console.print(ratio_table(fitted))
    assert fitted.ending in " ".join(console.export_text().split())  # lines may break
    page = report_html(fitted)
    assert f'<p class="state bad">{escape(fitted.ending)}</p>' in page
    assert '<p class="state">' in report_html(unbounded())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"covariate,coef\n", "not a JSON file"),
        (b"\xff\xfe\x00", "not a JSON file"),
        (b"[1, 2]", "no version"),
        (b'{"version": 99}', "version 99"),
        (b'{"version": 2, "study": {}}', "lacks centers"),
        (b'{"version": 1, "study": {}}', "has version 1 of fit.json; this fedcox reads"),
    ],
)
def test_a_file_that_is_no_fit_is_named_as_such(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "fit.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        FittedStudy.read(path)


def test_a_fit_that_lacks_a_field_of_a_row_is_named_as_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    examples.lung().save(path)
    record = json.loads(path.read_text())
    del record["baseline"][0]["hazard"]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="not a complete fit"):
        FittedStudy.read(path)


def test_a_fit_of_a_study_that_cannot_be_run_says_what_is_wrong_with_the_study(
    tmp_path: Path,
) -> None:
    path = tmp_path / "fit.json"
    examples.lung().save(path)
    record = json.loads(path.read_text())
    record["study"]["model"]["link"] = "probit"
    path.write_text(json.dumps(record))
    with pytest.raises(StudyError, match="link") as caught:
        FittedStudy.read(path)
    assert caught.value.faults


def test_a_missing_fit_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fit\.json that `fedcox fit` wrote"):
        FittedStudy.read(tmp_path / "nowhere.json")


def test_saving_into_a_folder_that_does_not_exist_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="Cannot write"):
        examples.lung().save(tmp_path / "nowhere" / "fit.json")
    assert list(tmp_path.iterdir()) == []


def test_the_baseline_patient_has_the_baseline_survival() -> None:
    fitted = examples.lung()
    hazard = np.array([row.hazard for row in fitted.baseline])
    np.testing.assert_allclose(
        fitted.survival(np.atleast_2d(np.zeros(6)))[0], np.cumprod(1 - hazard), rtol=1e-12
    )


def test_log_risk_is_coefficients_times_covariates() -> None:
    risk = examples.lung().predict_log_risk(PATIENTS)
    assert list(risk.index) == ["p", "q", "r"]
    expected = [0.0135 * 62.4, 0.0135 * 72.4 - 0.5512 + 0.4093 - 0.092, 0.0135 * 52.4 + 0.9182]
    np.testing.assert_allclose(risk, expected, rtol=1e-12)


def test_survival_of_new_patients_falls_over_the_interval_ends() -> None:
    fitted = examples.lung()
    curves = fitted.predict_survival(PATIENTS)
    assert list(curves.index) == ["p", "q", "r"]
    np.testing.assert_array_equal(curves.columns, fitted.interval_ends)
    assert (curves.diff(axis=1).iloc[:, 1:] <= 0).all(axis=None)
    np.testing.assert_allclose(
        curves.loc["p"],
        fitted.survival(np.atleast_2d(np.array([62.4, 0, 0, 0, 0, 0])))[0],
        rtol=1e-12,
    )


def test_the_median_is_where_the_curve_crosses_a_half() -> None:
    fitted = examples.lung()
    curves = fitted.predict_survival(PATIENTS).to_numpy()
    for curve, time in zip(curves, fitted.predict_median(PATIENTS), strict=True):
        assert (curve[fitted.interval_ends < time] > 0.5).all()
        assert (curve[fitted.interval_ends >= time] <= 0.5).all()


def test_an_aliased_column_contributes_nothing_even_where_it_is_missing() -> None:
    fitted = examples.wide()
    x = np.zeros(60)
    x[3] = x[4] = np.nan
    np.testing.assert_array_equal(
        fitted.survival(np.atleast_2d(x))[0], fitted.survival(np.atleast_2d(np.zeros(60)))[0]
    )


def test_missing_values_take_the_mean_only_if_the_study_says_so() -> None:
    incomplete = PATIENTS.assign(age=[np.nan, 72.4, 52.4])
    fitted = examples.lung()
    with pytest.raises(CohortError, match="age"):
        fitted.predict_log_risk(incomplete)
    tables = fitted.study.to_dict()
    tables["model"]["missing"] = "mean"
    filling = replace(fitted, study=type(fitted.study).from_dict(tables))
    filled, complete = filling.predict_log_risk(incomplete), fitted.predict_log_risk(PATIENTS)
    np.testing.assert_allclose(filled, complete, rtol=1e-12)


def test_fixed_hazards_are_kept_for_every_patient() -> None:
    curve = examples.separated().survival(np.atleast_2d(np.zeros(2)))[0]
    assert curve[0] == 1.0
    assert curve[2] == 0.0
