from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.study.fitted import FittedStudy
from tests.cli.conftest import STUDY, Files, Run, invented


@pytest.fixture
def new(fitted_files: Files) -> Path:
    file = fitted_files.folder / "new.csv"
    invented(9, seed=5)[["stage", "patient", "age"]].to_csv(file, index=False)
    return file


def test_predictions_are_those_of_the_fitted_study(
    fitted_files: Files, new: Path, fedcox: Run
) -> None:
    out = fitted_files.folder / "predicted.csv"
    ended = fedcox("predict", fitted_files.run, "--data", new, "--out", out)
    assert ended.status == 0
    assert "9 patients" in ended.out
    table = pd.read_csv(out)
    fitted, patients = FittedStudy.read(fitted_files.run / "fit.json"), invented(9, seed=5)
    assert table["patient"].tolist() == patients["patient"].tolist()
    np.testing.assert_allclose(table["log_risk"], fitted.predict_log_risk(patients), rtol=1e-12)
    np.testing.assert_allclose(table["median"], fitted.predict_median(patients))
    times = [row.time for row in fitted.risk_table if row.time > 0]
    assert len(times) > 2
    band = fitted.predict_survival_band(patients, times)
    assert band is not None
    expected = (fitted.predict_survival(patients, times), *band)
    for part, suffix in zip(expected, ("", "_low", "_high"), strict=True):
        names = [f"survival_{time:g}{suffix}" for time in times]
        np.testing.assert_allclose(table[names], part, rtol=1e-12)
    assert table.shape[1] == 3 + 3 * len(times)


def test_survival_is_known_between_the_edges_and_comes_with_a_band(
    fitted_files: Files, new: Path, fedcox: Run
) -> None:
    out = fitted_files.folder / "predicted.csv"
    words = ["predict", fitted_files.run, "--data", new, "--out", out]
    for time in (0, 99, 100, 150, 200):
        words += ["--at", str(time)]
    assert fedcox(*words).status == 0
    table = pd.read_csv(out)
    ends = FittedStudy.read(fitted_files.run / "fit.json").predict_survival(invented(9, seed=5))
    assert (table["survival_0"] == 1).all()
    np.testing.assert_allclose(table["survival_99"], ends[100.0] ** 0.99, rtol=1e-12)
    np.testing.assert_allclose(table["survival_100"], ends[100.0], rtol=1e-12)
    np.testing.assert_allclose(
        table["survival_150"], np.sqrt(ends[100.0] * ends[200.0]), rtol=1e-12
    )
    np.testing.assert_allclose(table["survival_200"], ends[200.0], rtol=1e-12)
    for time in (99, 100, 150, 200):
        low, high = table[f"survival_{time}_low"], table[f"survival_{time}_high"]
        assert (low < table[f"survival_{time}"]).all()
        assert (table[f"survival_{time}"] < high).all()


def test_grouped_time_knows_survival_at_interval_ends_alone(files: Files, fedcox: Run) -> None:
    text = STUDY.replace("[grid]", '[model]\nlink = "cloglog"\n\n[grid]')
    files.study.write_text(text, encoding="utf-8")
    assert fedcox(*files.words()).status == 0
    out = files.folder / "predicted.csv"
    words = ("predict", files.run, "--data", files.data, "--out", out)
    refused = fedcox(*words, "--at", "100", "--at", "150")
    assert refused.status == 2
    assert "survival is known at the ends of intervals alone" in refused.err
    assert not out.exists()
    assert fedcox(*words, "--at", "100").status == 0
    assert "survival_100_low" not in pd.read_csv(out)


def test_survival_is_the_exponential_of_the_summed_hazards_by_hand(
    fitted_files: Files, new: Path, fedcox: Run
) -> None:
    out = fitted_files.folder / "predicted.csv"
    fitted = FittedStudy.read(fitted_files.run / "fit.json")
    words = [word for end in fitted.interval_ends for word in ("--at", f"{end:g}")]
    ended = fedcox("predict", fitted_files.run, "--data", new, "--out", out, *words)
    assert ended.status == 0
    coef = {row.name: row.coef for row in fitted.coefficients}
    table = pd.read_csv(out)
    for patient, predicted in zip(
        invented(9, seed=5).to_dict("records"), table.to_dict("records"), strict=True
    ):
        risk = float((coef["age"] or 0.0) * patient["age"])
        risk += coef.get(f"stage_{patient['stage']}") or 0.0
        assert predicted["log_risk"] == pytest.approx(risk, rel=1e-12)
        survival, start = 1.0, 0.0
        for row in fitted.baseline:
            assert row.alpha is not None
            survival *= np.exp(-np.exp(row.alpha + risk) * (row.interval_end - start))
            start = row.interval_end
            end = f"survival_{row.interval_end:g}"
            assert predicted[end] == pytest.approx(survival, rel=1e-10)


def test_event_times_that_differ_in_the_seventh_digit_have_columns_of_their_own(
    files: Files, fedcox: Run
) -> None:
    table = invented().astype({"days": float})
    table["days"] += 1000 + 1e-4 * np.arange(60)
    table.loc[:1, "days"] = [1500.0001, 1500.0002]
    table.loc[:1, "died"] = 1
    table.to_csv(files.data, index=False)
    text = STUDY.replace("width = 100", 'times = "events"')
    text = text.replace("[grid]", '[model]\nlink = "cloglog"\n\n[grid]')
    files.study.write_text(text, encoding="utf-8")
    assert fedcox(*files.words()).status == 0
    out = files.folder / "predicted.csv"
    assert fedcox("predict", files.run, "--data", files.data, "--out", out).status == 0
    predicted = pd.read_csv(out)
    fitted = FittedStudy.read(files.run / "fit.json")
    assert {"survival_1500.0001", "survival_1500.0002"} <= set(predicted)
    curves = predicted.filter(regex="^survival_")
    np.testing.assert_allclose(curves, fitted.predict_survival(table), rtol=1e-12)


def test_the_fit_json_alone_is_enough(fitted_files: Files, new: Path, fedcox: Run) -> None:
    alone = fitted_files.folder / "alone.json"
    alone.write_bytes((fitted_files.run / "fit.json").read_bytes())
    ended = fedcox("predict", alone, "--data", new, "--out", fitted_files.folder / "p.csv")
    assert ended.status == 0


def test_without_an_identifier_rows_are_numbered(
    fitted_files: Files, new: Path, fedcox: Run
) -> None:
    pd.read_csv(new).drop(columns="patient").to_parquet(new.with_suffix(".parquet"))
    out = fitted_files.folder / "predicted.csv"
    words = ["predict", fitted_files.run, "--data", new.with_suffix(".parquet"), "--out", out]
    assert fedcox(*words).status == 0
    assert pd.read_csv(out)["row"].tolist() == list(range(1, 10))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("age", "QXZ"), "not a number"),
        (("stage", "QXZ"), "a level the study does not know"),
        (("age", None), "has no value"),
    ],
)
def test_new_patients_who_cannot_be_predicted_are_told(
    change: tuple[str, str | None], said: str, fitted_files: Files, new: Path, fedcox: Run
) -> None:
    table = pd.read_csv(new).astype(object)
    table.loc[4, change[0]] = change[1]
    table.to_csv(new, index=False)
    out = fitted_files.folder / "predicted.csv"
    ended = fedcox("predict", fitted_files.run, "--data", new, "--out", out)
    assert ended.status == 2
    assert said in ended.err
    assert "QXZ" not in ended.err
    assert not out.exists()


def test_missing_values_take_the_mean_of_the_fit_if_the_study_says_so(
    files: Files, fedcox: Run
) -> None:
    files.study.write_text(STUDY + '[model]\nmissing = "mean"\n', encoding="utf-8")
    assert fedcox(*files.words()).status == 0
    new, out = files.folder / "new.csv", files.folder / "predicted.csv"
    new.write_text("patient,age,stage\na,,I\n", encoding="utf-8")
    assert fedcox("predict", files.run, "--data", new, "--out", out).status == 0
    row = FittedStudy.read(files.run / "fit.json").coefficients[0]
    assert row.coef is not None
    ages = invented()["age"]
    assert row.mean == pytest.approx(ages.mean(), abs=1e-3 * ages.std() / len(ages) ** 0.5)
    assert pd.read_csv(out)["log_risk"][0] == pytest.approx(row.coef * row.mean, rel=1e-12)


def test_a_file_in_the_way_needs_overwrite(fitted_files: Files, new: Path, fedcox: Run) -> None:
    out = fitted_files.folder / "predicted.csv"
    out.write_text("mine", encoding="utf-8")
    words = ["predict", fitted_files.run, "--data", new, "--out", out]
    refused = fedcox(*words)
    assert refused.status == 2
    assert "--overwrite" in refused.err
    assert out.read_text(encoding="utf-8") == "mine"
    assert fedcox(*words, "--overwrite").status == 0
    assert len(pd.read_csv(out)) == 9


@pytest.mark.parametrize("time", ["-1", "100000"])
def test_a_time_outside_the_follow_up_is_refused(
    time: str, fitted_files: Files, new: Path, fedcox: Run
) -> None:
    out = fitted_files.folder / "predicted.csv"
    words = ["predict", fitted_files.run, "--data", new, "--out", out, "--at", time]
    ended = fedcox(*words)
    assert ended.status == 2
    assert "follows patients up to" in ended.err
    assert not out.exists()


def test_a_run_that_is_none_is_told(fitted_files: Files, new: Path, fedcox: Run) -> None:
    out = fitted_files.folder / "predicted.csv"
    for run, said in (
        (fitted_files.folder / "nowhere", "there is no fit here"),
        (fitted_files.folder, "there is no fit here"),
        (new, "not a JSON file"),
    ):
        ended = fedcox("predict", run, "--data", new, "--out", out)
        assert ended.status == 2
        assert said in ended.err
    assert not out.exists()


def test_a_folder_that_is_not_there_is_told(
    fitted_files: Files, new: Path, fedcox: Run
) -> None:
    out = fitted_files.folder / "nowhere" / "predicted.csv"
    ended = fedcox("predict", fitted_files.run, "--data", new, "--out", out)
    assert ended.status == 2
    assert "Cannot write" in ended.err


def test_a_time_beyond_the_fit_is_told_in_the_studys_unit(files: Files, fedcox: Run) -> None:
    files.study.write_text(STUDY.replace('unit = "days"\n', ""), encoding="utf-8")
    assert fedcox(*files.words()).status == 0
    words = ["predict", files.run, "--data", files.data, "--out", files.folder / "p.csv"]
    ended = fedcox(*words, "--at", "1e6")
    assert ended.status == 2
    assert re.search(r"follows patients up to \d+ units of time", ended.err)
