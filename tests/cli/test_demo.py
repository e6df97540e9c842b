from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_the_demo_fits_five_hospitals_and_writes_the_report(
    tmp_path: Path, fedcox: Run
) -> None:
    out = tmp_path / "demo"
    ended = fedcox("demo", "--out", out)
    assert ended.status == 0
    assert "Five simulated hospitals" in ended.out
    assert "hazard ratio" in ended.out
    record = json.loads((out / "run" / "fit.json").read_text(encoding="utf-8"))
    assert len(record["centers"]) == 5
    assert sum(center["patients"] for center in record["centers"]) == 1500
    assert (out / "run" / "report.html").exists()
    assert len(list((out / "hospitals").glob("hospital_*.csv"))) == 5


def test_the_demos_intervals_hold_the_truth_it_was_simulated_with(
    tmp_path: Path, fedcox: Run
) -> None:
    assert fedcox("demo", "--out", tmp_path / "demo").status == 0
    text = (tmp_path / "demo" / "hospitals" / "study.toml").read_text(encoding="utf-8")
    heading = text.splitlines()[0].removesuffix(".").partition("ratios: ")[2]
    truth = {name: float(value) for name, value in map(str.split, heading.split(", "))}
    fitted = json.loads((tmp_path / "demo" / "run" / "fit.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in fitted["coefficients"]}
    assert rows.keys() == truth.keys()
    for name, value in truth.items():
        assert abs(rows[name]["coef"] - value) < 3.3 * rows[name]["se"]


def test_a_demo_that_is_there_is_kept_unless_told_otherwise(
    tmp_path: Path, fedcox: Run
) -> None:
    out = tmp_path / "demo"
    assert fedcox("demo", "--out", out).status == 0
    first = (out / "run" / "fit.json").read_bytes()
    refused = fedcox("demo", "--out", out, "--seed", "2")
    assert refused.status == 2
    assert "--overwrite" in refused.err
    assert (out / "run" / "fit.json").read_bytes() == first
    assert fedcox("demo", "--out", out, "--seed", "2", "--overwrite").status == 0
    assert (out / "run" / "fit.json").read_bytes() != first


def test_other_files_beside_a_demo_are_kept(tmp_path: Path, fedcox: Run) -> None:
    out = tmp_path / "demo"
    assert fedcox("demo", "--out", out).status == 0
    (out / "run" / "thesis.docx").write_text("years of work", encoding="utf-8")
    assert fedcox("demo", "--out", out, "--overwrite").status == 2
    assert (out / "run" / "thesis.docx").exists()
