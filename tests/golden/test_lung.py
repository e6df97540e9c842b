"""R's survival package on its own lung data; the numbers come from lung.R."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines.datasets import load_lung

from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.concordance import concordance_index

GOLDEN = json.loads(Path(__file__).with_name("lung.json").read_text(encoding="utf-8"))
TOLERANCE = GOLDEN["tolerance"]
CASES = [(name, number) for name, problem in GOLDEN["problems"].items() for number in range(2)]


@cache
def patients(name: str) -> pd.DataFrame:
    """The same patients as in the R script."""
    lung: pd.DataFrame = load_lung()
    if name == "every column":
        return lung.dropna().reset_index(drop=True)
    few = lung[["time", "status", "age", "sex"]].dropna()
    if name == "an aliased column":
        few = few.assign(months=12 * few["age"] - few["sex"] + 5)
    return few.assign(decades=few["age"] / 10)


def fitted(name: str, link: str, grid: dict[str, Any]) -> FittedStudy:
    study = Study(
        outcome={"time": "time", "event": "status"},
        covariates=GOLDEN["problems"][name]["covariates"],
        grid=grid,
        model={"link": link},
    )
    frame = patients(name)
    center = np.arange(len(frame)) % 5
    with warnings.catch_warnings():  # empty intervals, an aliased column: looked at below
        warnings.simplefilter("ignore", FedcoxWarning)
        return fit(study, InProcess.from_frame(study, frame.assign(c=center), center="c"))


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_fit_is_rs_glm_on_the_split_patients(name: str, number: int) -> None:
    problem = GOLDEN["problems"][name]
    theirs = problem["stacked"][number]
    ours = fitted(name, theirs["link"], {"width": theirs["width"]})
    assert (ours.patients, ours.events) == (problem["patients"], problem["events"])
    informative = [row for row in ours.baseline if row.alpha is not None]
    assert len(informative) == theirs["intervals"]
    assert sum(row.at_risk or 0.0 for row in informative) == theirs["rows"]
    nothing = [coef is None for coef in theirs["coef"]]
    assert [row.coef is None for row in ours.coefficients] == nothing

    def column(key: str) -> Any:
        return np.array(theirs[key], dtype=np.float64)

    summary = ours.summary
    np.testing.assert_allclose(
        summary["coef"], column("coef"), rtol=TOLERANCE["coef"], atol=TOLERANCE["coef"]
    )
    np.testing.assert_allclose(summary["se(coef)"], column("se"), rtol=TOLERANCE["se"])
    np.testing.assert_allclose(summary["z"], column("z"), rtol=1e-6)
    np.testing.assert_allclose(summary["p"], column("p"), rtol=1e-5)
    assert ours.log_likelihood == pytest.approx(
        theirs["log_likelihood"], rel=TOLERANCE["log_likelihood"]
    )


def test_the_later_of_two_columns_is_the_one_r_leaves_out() -> None:
    for theirs in GOLDEN["problems"]["an aliased column"]["stacked"]:
        assert [coef is None for coef in theirs["coef"]] == [False, False, True]


@pytest.mark.parametrize("name", [name for name in GOLDEN["problems"] if "aliased" not in name])
def test_every_event_time_is_close_to_rs_coxph_with_breslows_ties(name: str) -> None:
    theirs = GOLDEN["problems"][name]["breslow"]
    ours = fitted(name, "cloglog", {"times": "events"})
    se = np.array(theirs["se"])
    off = np.abs(ours.summary["coef"].to_numpy() - np.array(theirs["coef"])) / se
    assert off.max() < 0.15
    np.testing.assert_allclose(ours.summary["se(coef)"], se, rtol=0.02)


@pytest.mark.parametrize("name", [name for name in GOLDEN["problems"] if "aliased" not in name])
def test_concordant_pairs_are_counted_as_r_counts_them(name: str) -> None:
    problem = GOLDEN["problems"][name]
    theirs = problem["breslow"]
    frame = patients(name)
    risk = frame[problem["covariates"]].to_numpy(np.float64) @ np.array(theirs["coef"])
    # Patients with equal covariates have equal risks, to rounding: rounded, they are ties.
    found = concordance_index(frame["time"], frame["status"] == 1, np.round(risk, 10))
    assert found.concordant == theirs["concordant"]
    assert found.tied == theirs["tied_in_risk"]
    assert found.comparable == (
        theirs["concordant"] + theirs["discordant"] + theirs["tied_in_risk"]
    )
    assert found.index == pytest.approx(theirs["concordance"], abs=1e-12)


def test_the_file_says_where_its_numbers_come_from() -> None:
    assert GOLDEN["versions"].keys() == {"R", "survival"}
    assert Path(__file__).with_name("lung.R").exists()
