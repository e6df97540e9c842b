"""The outcome table, as a workbook and as text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.errors import InputError
from fedcox.paper.tcga.downloads import of_cancer, read_outcome
from tests.paper.tcga import made_up


def people_with_gaps() -> pd.DataFrame:
    people = made_up.patients(12)
    people["type"] = ["MADE"] * 8 + ["UP"] * 4
    people["T"] = people["T"].astype(object).where(np.arange(12) != 3, None)
    return people


def test_workbook_and_text_are_the_same_table(tmp_path: Path) -> None:
    people = people_with_gaps()
    text = read_outcome(made_up.outcome_csv(tmp_path, people))
    workbook = read_outcome(made_up.outcome_xlsx(tmp_path, people))
    pd.testing.assert_frame_equal(text, workbook)
    assert text["E"].tolist() == people["E"].tolist()
    assert text["T"].isna().tolist() == [row == 3 for row in range(12)]
    assert text["type"].value_counts().to_dict() == {"MADE": 8, "UP": 4}


def test_a_workbook_is_recognised_by_its_content(tmp_path: Path) -> None:
    people = made_up.patients(6)
    file = made_up.outcome_xlsx(tmp_path, people).rename(tmp_path / "outcome.csv")
    assert len(read_outcome(file)) == 6


def test_another_cancer_is_told_the_ones_there_are(tmp_path: Path) -> None:
    outcome = read_outcome(made_up.outcome_csv(tmp_path, people_with_gaps()))
    assert len(of_cancer(outcome, "UP", "here")) == 4
    with pytest.raises(InputError, match="The types there are MADE and UP"):
        of_cancer(outcome, "BRCA", "here")


def test_every_fault_is_told_at_once_and_no_value(tmp_path: Path) -> None:
    people = made_up.patients(8)
    people["E"] = ["0", "1", "7777", "dead", "0", "1", "0", "1"]
    people["T"] = ["5", "soon", "3", "4", "-8888", "9", "9", "9"]
    people.index = pd.Index(["TCGA-Q1-0001"] * 2 + list(people.index[2:]), name="pid")
    with pytest.raises(InputError) as raised:
        read_outcome(made_up.outcome_csv(tmp_path, people))
    told = str(raised.value)
    assert "Column 'OS': 2 values are not 0 or 1." in told
    assert "Column 'OS.time': 2 values are not a number of days, zero or more." in told
    assert "1 patient is there twice." in told
    assert not [cell for cell in ("7777", "dead", "soon", "8888", "0001") if cell in told]


def test_a_table_that_is_no_outcome_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "clinical.csv"
    file.write_text("bcr_patient_barcode,type,OS\nTCGA-Q1-0001,MADE,1\n")
    with pytest.raises(InputError, match=r"lacks the column 'OS\.time'") as raised:
        read_outcome(file)
    assert "TCGA-CDR-SupplementalTableS1.xlsx" in str(raised.value)


def test_a_workbook_without_the_sheet_names_those_it_has(tmp_path: Path) -> None:
    import openpyxl

    file = tmp_path / "outcome.xlsx"
    workbook = openpyxl.Workbook()
    workbook.create_sheet("ExtraEndpoints")
    workbook.save(file)
    with pytest.raises(InputError, match="Its sheets are 'Sheet' and 'ExtraEndpoints'"):
        read_outcome(file)
    file.write_bytes(b"PK\x03\x04 and nothing that unpacks")
    with pytest.raises(InputError, match="damaged"):
        read_outcome(file)


def test_an_empty_sheet_is_no_outcome_table(tmp_path: Path) -> None:
    import openpyxl

    file = tmp_path / "outcome.xlsx"
    workbook = openpyxl.Workbook()
    workbook.create_sheet("TCGA-CDR")
    workbook.save(file)
    with pytest.raises(InputError, match="not the outcome table"):
        read_outcome(file)


def test_without_the_reader_of_workbooks_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made_up.outcome_xlsx(tmp_path, made_up.patients(6))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"pip install 'fedcox\[experiments\]'"):
        read_outcome(file)
