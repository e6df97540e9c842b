"""Three files to one table of patients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.errors import InputError
from fedcox.paper.tcga import TcgaTable, read_tcga
from tests.paper.tcga import made_up


def read(
    folder: Path,
    people: pd.DataFrame,
    *,
    cancer: str = made_up.CANCER,
    layout: str = "tcgabiolinks_2020",
    regions: dict[str, str] | None = None,
    clinical: pd.DataFrame | None = None,
    own_outcome: bool = False,
) -> TcgaTable:
    write, _, _ = made_up.LAYOUTS[layout]
    return read_tcga(
        clinical=write(folder, people if clinical is None else clinical),
        outcome=None if own_outcome else made_up.outcome_csv(folder, people),
        regions=made_up.regions_csv(folder, regions),
        cancer=cancer,
    )


def test_the_table_has_patient_covariates_outcome_and_center(tmp_path: Path) -> None:
    people = made_up.patients()
    table = read(tmp_path, people)
    assert list(table.frame) == ["pid", *table.covariates, "E", "T", "tss", "center"]
    assert table.frame["pid"].tolist() == sorted(people.index)
    rows = people.loc[table.frame["pid"]]
    np.testing.assert_array_equal(table.frame["E"], rows["E"])
    np.testing.assert_array_equal(table.frame["T"], rows["T"])
    np.testing.assert_array_equal(
        table.frame["center"], rows.index.str[5:7].map(made_up.REGIONS)
    )
    assert table.centers == ("Northland", "Southland")
    assert table.layout == "TCGAbiolinks"
    assert table.federated.equals(table.frame)


def test_cohorts_are_the_rows_of_each_center(tmp_path: Path) -> None:
    table = read(tmp_path, made_up.patients())
    cohorts = table.cohorts()
    assert tuple(cohorts) == table.centers
    for name, cohort in cohorts.items():
        rows = table.frame[table.frame["center"] == name]
        np.testing.assert_array_equal(cohort.covariates, rows[list(table.covariates)])
        np.testing.assert_array_equal(cohort.time, rows["T"])
        np.testing.assert_array_equal(cohort.event, rows["E"] == 1)
        np.testing.assert_array_equal(cohort.number, rows.index)
    numbers = np.concatenate([cohort.number for cohort in cohorts.values()])
    assert sorted(numbers) == list(range(len(table.federated)))


@pytest.mark.parametrize("layout", made_up.LAYOUTS)
def test_every_layout_gives_the_columns_of_the_fields_it_has(
    layout: str, tmp_path: Path
) -> None:
    people = made_up.patients()
    whole = read(tmp_path, people).frame
    table = read(tmp_path, people, layout=layout)
    carried = made_up.LAYOUTS[layout][2]
    if "ajcc_pathologic_stage" in carried:
        carried = carried | {"tumor_stage"}
    wanted = [
        name
        for name in whole
        if any(str(name).startswith(field) for field in carried)
        or name in ("pid", "E", "T", "tss", "center")
    ]
    pd.testing.assert_frame_equal(table.frame, whole[wanted])


def test_cbioportal_brings_an_outcome_in_months(tmp_path: Path) -> None:
    people = made_up.patients()
    with_outcome = read(tmp_path, people, layout="cbioportal").frame
    alone = read(tmp_path, people, layout="cbioportal", own_outcome=True).frame
    pd.testing.assert_frame_equal(alone, with_outcome)


def test_the_outcome_table_goes_before_the_one_of_cbioportal(tmp_path: Path) -> None:
    people = made_up.patients()
    other = people.assign(T=people["T"] + 1000)
    table = read(tmp_path, people, clinical=other, layout="cbioportal")
    np.testing.assert_array_equal(table.frame["T"], people.loc[table.frame["pid"], "T"])


def test_who_is_left_out_is_counted(tmp_path: Path) -> None:
    people = made_up.patients()
    people["T"] = people["T"].astype(object).where(np.arange(40) != 0, None)
    people["type"] = [made_up.CANCER] * 38 + ["OTHR"] * 2
    regions = {"Q1": "Northland", "NA": "Other"}
    table = read(tmp_path, people, clinical=people.iloc[3:], regions=regions)
    assert len(table.frame) == 35
    assert set(table.frame["center"]) == {"Northland", "Other", "unknown"}
    assert set(table.federated["center"]) == {"Northland"}
    told = "\n".join(table.notes)
    assert "1 patient of MADE without a survival time or status: left out." in told
    assert "2 patients of MADE in the outcome table but not in the clinical one" in told
    assert "2 patients of the clinical table not filed under MADE" in told
    assert "12 patients of the region 'Other' stay out of the federation." in told
    assert "11 patients stay out of the federation" in told
    assert "'01'" in told


def test_what_a_table_lacks_and_what_was_rare_is_said(tmp_path: Path) -> None:
    people = made_up.patients()
    people.loc[people.index[0], "race"] = "rare"
    people.loc[people.index[1], "age_at_index"] = None
    table = read(tmp_path, people, layout="cbioportal")
    assert "race_rare" in table.rare
    told = "\n".join(table.notes)
    assert "indicator" in told
    assert "1 patient has no age_at_index." in told
    assert "The clinical table (cBioPortal) does not have ajcc_clinical_m, " in told


def test_rare_is_counted_over_all_patients_of_table_1(tmp_path: Path) -> None:
    """Those outside the federation count, as in the published table of BRCA."""
    people = made_up.patients()
    people["icd_10_code"] = [
        "C00.1" if site == "01" else "C00.0" for site in people.index.str[5:7]
    ]
    table = read(
        tmp_path, people, regions={"Q1": "Northland", "NA": "Southland", "01": "Other"}
    )
    assert "icd_10_code_C00.1" in table.covariates
    assert table.federated["icd_10_code_C00.1"].sum() == 0


def test_files_of_two_cancers_do_not_meet(tmp_path: Path) -> None:
    people = made_up.patients()
    people["type"] = ["AAAA"] * 20 + ["BBBB"] * 20
    with pytest.raises(InputError) as raised:
        read(tmp_path, people, clinical=people.iloc[:20], cancer="BBBB")
    told = str(raised.value)
    assert "no patient of BBBB with an outcome is in this table" in told
    assert "It has 20 patients, of whom the outcome table files 20 under AAAA." in told
    strangers = people.rename(index=lambda pid: pid.replace("TCGA", "ELSE"))
    with pytest.raises(InputError, match="of whom the outcome table has none"):
        read(tmp_path, people, clinical=strangers, cancer="BBBB")


def test_a_cancer_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The types there are MADE"):
        read(tmp_path, made_up.patients(), cancer="BRCA")


def test_only_cbioportal_does_without_an_outcome(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs an outcome beside it"):
        read(tmp_path, made_up.patients(), own_outcome=True)


def test_no_region_is_no_federation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no two patients of MADE belong to one region"):
        read(
            tmp_path, made_up.patients(), regions={"Q1": "Other", "NA": "Other", "01": "Other"}
        )
