"""Patients of a common file who name no center."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.data.encoding import cohorts_by_center
from fedcox.data.schema import CohortSchema
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, FedcoxWarning, MissingCenterWarning
from fedcox.study.study import Study
from tests.cli.conftest import STUDY, Files, Run, invented

DROP = STUDY + '[model]\nmissing = "drop"\n'


def schema(text: str = DROP) -> CohortSchema:
    return Study.parse(text).schema


def without_center(*rows: int, mark: str | float | None = None) -> pd.DataFrame:
    frame = invented().astype({"hospital": object})
    frame.loc[list(rows), "hospital"] = mark
    return frame


@pytest.mark.parametrize("mark", [None, np.nan, "", "NA", " "])
def test_they_are_left_out_with_missing_drop_and_counted(mark: str | float | None) -> None:
    frame = without_center(0, 7, 8, mark=mark)
    with pytest.warns(MissingCenterWarning, match=r"^3 patient\(s\) name no center") as caught:
        parts = cohorts_by_center(frame, schema(), center="hospital", source="all.csv")
    assert issubclass(MissingCenterWarning, FedcoxWarning)
    assert str(caught[0].message).endswith('were left out, as missing = "drop" says.')
    assert list(parts) == ["north", "south", "west"]
    whole = cohorts_by_center(
        frame.drop(index=[0, 7, 8]), schema(), center="hospital", source="all.csv"
    )
    for name, part in parts.items():
        assert part.dropped == {}
        np.testing.assert_array_equal(part.cohort.time, whole[name].cohort.time)
        np.testing.assert_array_equal(part.cohort.covariates, whole[name].cohort.covariates)
        np.testing.assert_array_equal(part.cohort.number, whole[name].cohort.number)


def test_whoever_has_no_center_is_counted_for_nothing_else() -> None:
    frame = without_center(0, 1).astype({"age": object})
    frame.loc[[0, 2], "age"] = None
    frame.loc[[1, 3], "days"] = 0
    rules = replace(schema(), zero_times="drop")
    with pytest.warns(MissingCenterWarning, match=r"^2 patient"):
        parts = cohorts_by_center(frame, rules, center="hospital", source="all.csv")
    assert {name: dict(part.dropped) for name, part in parts.items()} == {
        "north": {"zero follow-up time": 1},
        "south": {},
        "west": {"missing values": 1},
    }
    assert sum(part.cohort.patients for part in parts.values()) == 56


@pytest.mark.parametrize("rule", ["refuse", "mean"])
def test_they_are_a_fault_with_any_other_rule(rule: str) -> None:
    text = STUDY + f'[model]\nmissing = "{rule}"\n'
    with pytest.raises(CohortError, match="2 patients have no center") as raised:
        cohorts_by_center(
            without_center(3, 5), schema(text), center="hospital", source="all.csv"
        )
    assert 'missing = "drop"' in str(raised.value)


def test_nobody_with_a_center_is_a_fault() -> None:
    with pytest.raises(
        CohortError, match="No patients are left after dropping 60 for no center"
    ):
        cohorts_by_center(
            without_center(*range(60)), schema(), center="hospital", source="all.csv"
        )


def test_nothing_is_said_when_everyone_has_a_center() -> None:
    parts = cohorts_by_center(invented(), schema(), center="hospital", source="all.csv")
    assert sum(part.cohort.patients for part in parts.values()) == 60


def test_a_federation_from_a_table_passes_the_warning_on() -> None:
    study = Study.parse(DROP)
    with pytest.warns(MissingCenterWarning, match=r"^1 patient") as caught:
        federation = InProcess.from_frame(study, without_center(4), center="hospital")
    assert federation.names == ("north", "south", "west")
    assert Path(caught[0].filename) == Path(__file__)


def test_the_command_tells_it_in_a_line_and_fits_the_others(files: Files, fedcox: Run) -> None:
    files.study.write_text(DROP, encoding="utf-8")
    without_center(0, 7).to_csv(files.data, index=False)
    ended = fedcox(*files.words())
    assert ended.status == 0
    line = '2 patient(s) name no center and were left out, as missing = "drop" says.'
    assert line in ended.out
    record = json.loads((files.run / "fit.json").read_text(encoding="utf-8"))
    assert sum(center["patients"] for center in record["centers"]) == 58
    assert [center["name"] for center in record["centers"]] == ["north", "south", "west"]


def test_the_command_refuses_them_by_default(files: Files, fedcox: Run) -> None:
    without_center(0, 7).to_csv(files.data, index=False)
    ended = fedcox(*files.words())
    assert ended.status == 2
    assert "2 patients have no center (lines 2, 9)" in ended.err
    assert 'missing = "drop"' in ended.err
    assert not files.run.exists()
