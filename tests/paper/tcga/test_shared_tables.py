"""The real tables, which the project does not ship: the paper's table 1, from raw files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.paper.tcga import TcgaTable, read_tcga
from fedcox.paper.tcga.downloads import read_outcome
from fedcox.paper.tcga.layouts import FIELDS
from fedcox.paper.tcga.recipe import with_tumor_stage
from fedcox.paper.tcga.table import read_clinical

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "tcga"
REGIONS = FOLDER / "fed_tcga_brca" / "centers.csv"
WORKBOOK = FOLDER / "raw" / "TCGA-CDR-SupplementalTableS1.xlsx"
OUTCOME = FOLDER / "raw" / "TCGA-CDR_BRCA_COAD_KIRC_LGG.csv"

#: Patients, covariates with the two outcome columns, percent censored: the paper's table 1.
TABLE_1 = {
    "BRCA": (1096, 41, 86.2),
    "COAD": (458, 47, 77.7),
    "KIRC": (537, 29, 67.0),
    "LGG": (514, 20, 75.7),
}
#: Patients and events of each region.
IN_REGIONS = {
    "BRCA": {
        "Northeast": (311, 59),
        "South": (196, 39),
        "West": (206, 22),
        "Midwest": (162, 19),
        "Europe": (162, 9),
        "Canada": (51, 3),
        "Other": (8, 0),
    },
    "COAD": {
        "Northeast": (100, 23),
        "South": (81, 17),
        "West": (16, 5),
        "Midwest": (44, 20),
        "Europe": (204, 34),
        "Canada": (10, 1),
        "Other": (3, 2),
    },
    "KIRC": {"Northeast": (318, 133), "South": (136, 32), "West": (66, 7), "Midwest": (17, 5)},
    "LGG": {
        "Northeast": (36, 12),
        "South": (59, 33),
        "West": (44, 1),
        "Midwest": (270, 62),
        "Europe": (69, 10),
        "Other": (36, 7),
    },
}
#: Other layouts: cancer, name, patients in the file, patients with an outcome.
OTHERS = {
    "gdc_2019_kirc_clinical.tsv": ("KIRC", "GDC portal 2019", 537, 537),
    "gdc_2025_coad_clinical.tsv": ("COAD", "GDC portal since 2024", 458, 455),
    "xena_TCGA-COAD.GDC_phenotype.tsv": ("COAD", "UCSC Xena", 445, 442),
    "cbioportal_brca_data_clinical_patient.txt": ("BRCA", "cBioPortal", 1084, 1082),
}
#: In how many patients a field differs from the raw table of the same cancer, where both tables
#: have the field. Without an entry: in none. The exports are three to six years apart.
DIFFERENT = {
    # Whole years of the age in days: two are a year younger, one has no age in days. Whether
    # there was an earlier cancer was not reported in 2019.
    "gdc_2019_kirc_clinical.tsv": {"age_at_index": 3, "prior_malignancy": 537},
    # Ages above 89 are now 89, and seven others a year lower; diagnoses and sites were coded
    # anew; treatments are now listed one by one.
    "gdc_2025_coad_clinical.tsv": {
        "age_at_index": 16,
        "ethnicity": 1,
        "morphology": 2,
        "primary_diagnosis": 2,
        "prior_malignancy": 4,
        "site_of_resection_or_biopsy": 130,
        "synchronous_malignancy": 81,
        "tissue_or_organ_of_origin": 12,
        "treatment_or_therapy": 17,
    },
    # The form's own answer on drugs after surgery, which GDC has since revised.
    "xena_TCGA-COAD.GDC_phenotype.tsv": {"treatment_or_therapy": 6},
    # Stages of six patients that the export of GDC does not have; one answer.
    "cbioportal_brca_data_clinical_patient.txt": {
        "ajcc_pathologic_stage": 6,
        "tumor_stage": 6,
        "prior_treatment": 1,
    },
}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the TCGA tables are not beside the repository"
)
every_cancer = pytest.mark.parametrize("cancer", TABLE_1)
every_other = pytest.mark.parametrize("file", OTHERS)


@cache
def rebuilt(cancer: str) -> TcgaTable:
    return read_tcga(clinical=raw(cancer), outcome=OUTCOME, regions=REGIONS, cancer=cancer)


def raw(cancer: str) -> Path:
    return FOLDER / "raw" / f"TCGA-{cancer}_clinical.csv"


def cells_equal(found: pd.DataFrame, wanted: pd.DataFrame) -> bool:
    """Every cell, as numbers where they are numbers."""
    return all(
        np.array_equal(found[name].to_numpy(), wanted[name].to_numpy()) for name in wanted
    )


@every_cancer
def test_the_rebuilt_tables_are_table_1_of_the_paper(cancer: str) -> None:
    table = rebuilt(cancer)
    patients, columns, censored = TABLE_1[cancer]
    assert len(table.frame) == patients
    assert len(table.covariates) + 2 == columns
    assert round(100 * (1 - table.frame["E"].mean()), 1) == censored


def test_brca_is_the_published_table_cell_by_cell() -> None:
    published = pd.read_csv(FOLDER / "fed_tcga_brca" / "brca.csv").sort_values("pid")
    ours = rebuilt("BRCA").frame.drop(columns=["tss", "center"])
    assert list(ours) == list(published)
    assert cells_equal(ours, published)


@every_cancer
def test_all_four_equal_the_processed_tables(cancer: str) -> None:
    file = FOLDER / "processed" / f"tcga_{cancer.lower()}.csv"
    processed = pd.read_csv(file, keep_default_na=False).sort_values("pid")
    ours = rebuilt(cancer).frame
    assert list(ours) == list(processed)
    assert cells_equal(ours, processed)


@every_cancer
def test_regions_have_the_known_patients_and_events(cancer: str) -> None:
    table = rebuilt(cancer)
    found = table.frame.groupby("center")["E"].agg(["size", "sum"])
    assert {str(name): (n, e) for name, n, e in found.itertuples()} == IN_REGIONS[cancer]
    assert table.centers == tuple(sorted(set(IN_REGIONS[cancer]) - {"Other"}))
    assert {name: cohort.patients for name, cohort in table.cohorts().items()} == {
        name: IN_REGIONS[cancer][name][0] for name in table.centers
    }


def test_the_workbook_has_what_the_text_table_has() -> None:
    workbook, text = read_outcome(WORKBOOK), read_outcome(OUTCOME)
    assert len(workbook) == 11160
    same = workbook[workbook["type"].isin(TABLE_1)].sort_index()
    pd.testing.assert_frame_equal(same, text.sort_index())


def test_what_was_left_out_of_brca_is_said() -> None:
    notes = "\n".join(rebuilt("BRCA").notes)
    assert "1 patient of BRCA without a survival time or status: left out." in notes
    assert "8 patients of the region 'Other' stay out of the federation." in notes


@every_other
def test_other_layouts_load(file: str) -> None:
    cancer, layout, in_file, with_outcome = OTHERS[file]
    path = FOLDER / "formats" / file
    assert len(read_clinical(path).fields) == in_file
    table = read_tcga(clinical=path, outcome=OUTCOME, regions=REGIONS, cancer=cancer)
    assert table.layout == layout
    assert len(table.frame) == with_outcome
    same = rebuilt(cancer).frame.set_index("pid").loc[table.frame["pid"]]
    assert cells_equal(table.frame, same[["E", "T", "tss", "center"]])


@every_other
def test_other_layouts_say_the_same_of_the_same_patients(file: str) -> None:
    cancer, _, _, _ = OTHERS[file]
    known = with_tumor_stage(read_clinical(raw(cancer)).fields)
    known = known[known["age_at_index"].notna()]  # one or two patients of whom nothing is known
    other = with_tumor_stage(read_clinical(FOLDER / "formats" / file).fields)
    patients = known.index.intersection(other.index)
    assert len(patients) >= OTHERS[file][3]
    different = {}
    for field in (name for name in FIELDS if name in known and name in other):
        ours, theirs = other.loc[patients, field], known.loc[patients, field]
        if field == "age_at_index":
            ours, theirs = ours.astype(float), theirs.astype(float)
        count = int(((ours != theirs) & ~(ours.isna() & theirs.isna())).sum())
        if count:
            different[field] = count
    assert different == DIFFERENT[file]


def test_months_of_cbioportal_are_the_days_of_the_outcome_table() -> None:
    alone = read_tcga(
        clinical=FOLDER / "formats" / "cbioportal_brca_data_clinical_patient.txt",
        outcome=None,
        regions=REGIONS,
        cancer="BRCA",
    ).frame
    assert len(alone) == 1084
    assert alone["E"].sum() == 151
    outcome = read_outcome(OUTCOME)
    both = alone[alone["pid"].isin(outcome.index[outcome["T"].notna()])]
    days = outcome.loc[both["pid"]]
    np.testing.assert_array_equal(both["T"], days["T"])
    np.testing.assert_array_equal(both["E"], days["E"])
