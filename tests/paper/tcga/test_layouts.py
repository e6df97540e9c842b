"""One invented set of patients in every layout: the same fields come back."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedcox.errors import InputError
from fedcox.paper.tcga.layouts import CATEGORIES
from fedcox.paper.tcga.layouts import LAYOUTS as KNOWN
from fedcox.paper.tcga.table import read_clinical
from tests.paper.tcga import made_up

every_layout = pytest.mark.parametrize("layout", made_up.LAYOUTS)


def same_cells(found: pd.Series, wanted: pd.Series) -> bool:
    return bool(((found == wanted) | (found.isna() & wanted.isna())).all())


@every_layout
def test_every_field_a_layout_carries_comes_back_in_gdc_words(
    layout: str, tmp_path: Path
) -> None:
    write, name, carried = made_up.LAYOUTS[layout]
    people = made_up.patients()
    clinical = read_clinical(write(tmp_path, people))
    assert clinical.layout == name
    assert set(clinical.fields) == carried
    assert sorted(clinical.fields.index) == sorted(people.index)
    fields = clinical.fields.loc[people.index]
    for field in carried & set(CATEGORIES):
        assert same_cells(fields[field], people[field]), field
    ages = fields["age_at_index"].astype(float)
    assert (ages == people["age_at_index"].astype(float)).all()


@every_layout
def test_the_order_of_rows_does_not_matter(layout: str, tmp_path: Path) -> None:
    write, _, _ = made_up.LAYOUTS[layout]
    people = made_up.patients()
    straight = read_clinical(write(tmp_path, people)).fields
    backwards = read_clinical(write(tmp_path, people.iloc[::-1])).fields
    pd.testing.assert_frame_equal(straight.sort_index(), backwards.sort_index())


def test_there_is_a_made_up_table_for_every_layout() -> None:
    assert {name for _, name, _ in made_up.LAYOUTS.values()} == {one.name for one in KNOWN}


def test_a_table_that_passed_through_r_and_excel_is_the_same(tmp_path: Path) -> None:
    people = made_up.patients()
    file = made_up.tcgabiolinks_2020(tmp_path, people)
    straight = read_clinical(file).fields
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table["submitter_id"] = table["submitter_id"].str.replace("-", ".")
    table.insert(0, "", range(len(table)))
    table.to_csv(file, sep=";", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    pd.testing.assert_frame_equal(read_clinical(file).fields, straight)


def test_row_names_that_r_writes_under_no_name_are_no_field(tmp_path: Path) -> None:
    file = made_up.tcgabiolinks_2020(tmp_path, made_up.patients())
    straight = read_clinical(file).fields
    header, *rows = file.read_text().splitlines()
    numbered = [f'"{number}",{row}' for number, row in enumerate(rows, start=1)]
    file.write_text("\n".join([header, *numbered]))
    pd.testing.assert_frame_equal(read_clinical(file).fields, straight)


def test_codes_that_a_spreadsheet_made_dates_of_are_left_out_with_a_note(
    tmp_path: Path,
) -> None:
    people = made_up.patients()
    people["morphology"] = ["Mar-01", "Mar-02", "10-Mar", None] * 10
    clinical = read_clinical(made_up.xena_old(tmp_path, people))
    assert "morphology" not in clinical.fields
    assert any("30 of its codes" in note for note in clinical.notes)


def test_a_case_without_a_primary_mark_is_told_by_its_first_diagnosis(tmp_path: Path) -> None:
    file = made_up.portal_2024(tmp_path, made_up.patients(6))
    text = file.read_text()
    file.write_text(text.replace("\ttrue\t", "\t'--\t").replace("\tfalse\t", "\t'--\t"))
    clinical = read_clinical(file)
    assert set(clinical.fields["primary_diagnosis"]) == {"Another invention"}
    assert set(clinical.fields["treatment_or_therapy"]) == {"yes"}


def test_words_of_the_forms_for_an_empty_box_are_no_value(tmp_path: Path) -> None:
    people = made_up.patients(12)
    people["ajcc_pathologic_stage"] = ["[Not Available]", "[Discrepancy]", "Stage IV"] * 4
    fields = read_clinical(made_up.tcgabiolinks_2022(tmp_path, people)).fields
    assert fields["ajcc_pathologic_stage"].isna().sum() == 8


def refused(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as raised:
        read_clinical(file)
    return str(raised.value)


def test_another_layout_is_told_what_it_has_and_lacks_of_each(tmp_path: Path) -> None:
    told = refused(
        tmp_path / "mine.csv", "submitter_id,age_at_index,stage\nTCGA-Q1-0001,61,I\n"
    )
    assert (
        "TCGAbiolinks: has submitter_id and age_at_index, "
        "lacks treatments_pharmaceutical_treatment_or_therapy." in told
    )
    assert "cBioPortal: lacks PATIENT_ID, AGE and SEX." in told
    assert all(f"{one.name}: " in told for one in KNOWN)
    assert "'submitter_id', 'age_at_index' and 'stage'" in told
    assert "Pass the table of patients from one of TCGAbiolinks" in told


def test_the_outcome_table_in_the_place_of_the_clinical_one_is_recognised(
    tmp_path: Path,
) -> None:
    content = made_up.outcome_csv(tmp_path, made_up.patients(6)).read_text()
    assert "It is the outcome table, TCGA-CDR." in refused(tmp_path / "a.csv", content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "this file is empty"),
        ("#a\tb\n#c\td\n", "cannot be taken apart"),
        ("#a\tb\n#c\td", "cannot be taken apart"),
        ("PATIENT_ID\tAGE\tSEX\n", "no rows below"),
        ("PATIENT_ID\tAGE\tSEX\nTCGA-Q1-0001\t61\n", "cannot be taken apart"),
        ("PATIENT_ID\tAGE\tSEX\nTCGA-Q1-0001\t61\tMale\nx\t1\t2\t3\n", "cannot be taken apart"),
        ('PATIENT_ID\tAGE\tSEX\n"TCGA-Q1-0001\t61\tMale\n', "cannot be taken apart"),
        (b"PK\x03\x04 and more", "Excel workbook"),
        (b"\xff\xfeP\x00A\x00", "not UTF-8 text"),
        (b"clinical.tsv\x00\x00\x00 in an archive", "not UTF-8 text"),
        (b"\x1f\x8b\x08 not really gzipped", "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    content: str | bytes, told: str, tmp_path: Path
) -> None:
    assert told in refused(tmp_path / "clinical.tsv", content)


def test_a_file_or_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_clinical(tmp_path / "nowhere.tsv")
    with pytest.raises(InputError, match="this is a folder"):
        read_clinical(tmp_path)
