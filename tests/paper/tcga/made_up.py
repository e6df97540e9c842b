"""Invented patients, written the way each source of TCGA's tables would write them.

No barcode and no value here is of a person: the source sites do not exist.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedcox.paper.tcga.layouts import FIELDS

SITES = ("Q1", "NA", "01")
REGIONS = {"Q1": "Northland", "NA": "Southland", "01": "Southland"}
CANCER = "MADE"


def patients(number: int = 40) -> pd.DataFrame:
    """Everything known about the invented patients, in GDC's words; None for no value."""
    rng = np.random.default_rng(8)

    def drawn(*levels: str | None) -> list[str | None]:
        return [levels[k] for k in rng.integers(len(levels), size=number)]

    stage = drawn("Stage I", "Stage IIA", "Stage IV", None)
    frame = pd.DataFrame(
        {
            "age_at_index": rng.integers(30, 90, number).astype(str),
            "ethnicity": drawn("hispanic or latino", "not hispanic or latino", "not reported"),
            "gender": drawn("female", "male"),
            "race": drawn("white", "asian", "not reported"),
            "ajcc_clinical_m": drawn("M0", "MX", None),
            "ajcc_pathologic_m": drawn("M0", "cM0 (i+)", "MX"),
            "ajcc_pathologic_n": drawn("N0 (i-)", "N1a", "N1mi", "NX", None),
            "ajcc_pathologic_stage": stage,
            "ajcc_pathologic_t": drawn("T1c", "Tis", "T2", "TX"),
            "ajcc_staging_system_edition": drawn("6th", "7th", None),
            "icd_10_code": drawn("C00.1", "C00.9"),
            "morphology": drawn("8001/3", "8002/3"),
            "primary_diagnosis": drawn("Invented carcinoma, NOS", "Lobular invention"),
            "prior_malignancy": drawn("yes", "no", "not reported"),
            "prior_treatment": drawn("Yes", "No", "Not Reported"),
            "site_of_resection_or_biopsy": drawn("Left side", "Right side"),
            "synchronous_malignancy": drawn("No", "Not Reported"),
            "tissue_or_organ_of_origin": drawn("Left side", "Right side"),
            "treatment_or_therapy": drawn("yes", "no", "not reported"),
            "tumor_stage": ["not reported" if s is None else s.lower() for s in stage],
            "radiation": drawn("yes", "no"),
            "E": rng.integers(0, 2, number),
            "T": rng.integers(0, 3000, number),
        },
        index=pd.Index([f"TCGA-{SITES[k % 3]}-{k:04d}" for k in range(number)], name="pid"),
    )
    return frame.astype(dict.fromkeys(FIELDS, object))


def tcgabiolinks_2020(folder: Path, frame: pd.DataFrame) -> Path:
    fields = [name for name in FIELDS if name != "treatment_or_therapy"]
    table = frame[fields].assign(
        submitter_id=frame.index,
        treatments_pharmaceutical_treatment_or_therapy=frame["treatment_or_therapy"],
        treatments_radiation_treatment_or_therapy=frame["radiation"],
        bcr_patient_barcode=frame.index,
    )
    return _written(folder / "clinical.csv", table, "NA")


def tcgabiolinks_2022(folder: Path, frame: pd.DataFrame) -> Path:
    file = tcgabiolinks_2020(folder, frame)
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    return _written(file, table.drop(columns="tumor_stage"), "NA")


def portal_2019(folder: Path, frame: pd.DataFrame) -> Path:
    # The day before the next birthday.
    days = [str(int(365.25 * (int(age) + 1)) - 1) for age in frame["age_at_index"]]
    table = frame[sorted(_OLD)].assign(
        submitter_id=frame.index,
        project_id=f"TCGA-{CANCER}",
        age_at_diagnosis=days,
        treatment_or_therapy="yes",
    )
    return _written(folder / "clinical.tsv", table, "--")


def portal_2020(folder: Path, frame: pd.DataFrame) -> Path:
    fields = [name for name in FIELDS if name not in ("treatment_or_therapy", "tumor_stage")]
    both = []
    for kind, given in (("Radiation", "radiation"), ("Pharmaceutical", "treatment_or_therapy")):
        both.append(
            frame[fields].assign(
                case_submitter_id=frame.index,
                project_id=f"TCGA-{CANCER}",
                treatment_or_therapy=frame[given],
                treatment_type=f"{kind} Therapy, NOS",
            )
        )
    return _written(folder / "clinical.tsv", pd.concat(both).sort_index(), "'--")


def portal_2024(folder: Path, frame: pd.DataFrame) -> Path:
    """An earlier cancer first, then the primary one with all its treatments."""
    rows: list[dict[str, Any]] = []
    for pid, one in frame.iterrows():
        person = {
            "cases.submitter_id": pid,
            "demographic.submitter_id": f"{pid}_demographic",
            **{
                f"demographic.{name}": one[name]
                for name in ("age_at_index", "ethnicity", "gender", "race")
            },
        }
        earlier = {
            "diagnoses.diagnosis_is_primary_disease": "false",
            "diagnoses.primary_diagnosis": "Another invention",
            "diagnoses.morphology": "8999/1",
            "treatments.treatment_type": "Chemotherapy",
            "treatments.treatment_or_therapy": "yes",
        }
        primary = {
            "diagnoses.diagnosis_is_primary_disease": "true",
            **{
                f"diagnoses.{name}": one[name]
                for name in FIELDS[4:]
                if name not in ("treatment_or_therapy", "tumor_stage")
            },
        }
        rows.append(person | earlier)
        for kind, given in _treatments(one):
            treated = {
                "treatments.treatment_type": kind,
                "treatments.treatment_or_therapy": given,
            }
            rows.append(person | primary | treated)
    return _written(folder / "clinical.tsv", pd.DataFrame(rows), "'--")


def _treatments(one: Any) -> list[tuple[str, Any]]:
    radiation = ("Radiation Therapy, NOS", one["radiation"])
    return {
        "yes": [
            radiation,
            ("Pharmaceutical Therapy, NOS", "no"),
            ("Targeted Molecular Therapy", "yes"),
        ],
        "no": [("Surgery, NOS", "yes"), ("Pharmaceutical Therapy, NOS", "no"), radiation],
        "not reported": [radiation],
    }[one["treatment_or_therapy"]]


def cbioportal(folder: Path, frame: pd.DataFrame) -> Path:
    def empty(name: str, word: str = "not reported") -> Any:
        return frame[name].where(frame[name] != word, None)

    table = pd.DataFrame(
        {
            "PATIENT_ID": frame.index,
            "CANCER_TYPE_ACRONYM": CANCER,
            "AGE": frame["age_at_index"],
            "SEX": frame["gender"].str.title(),
            "AJCC_PATHOLOGIC_TUMOR_STAGE": frame["ajcc_pathologic_stage"].str.upper(),
            "AJCC_STAGING_EDITION": frame["ajcc_staging_system_edition"].str.upper(),
            "ETHNICITY": empty("ethnicity").str.title(),
            "RACE": empty("race").str.title(),
            "HISTORY_NEOADJUVANT_TRTYN": empty("prior_treatment", "Not Reported"),
            "ICD_10": frame["icd_10_code"],
            "ICD_O_3_HISTOLOGY": frame["morphology"],
            "PATH_M_STAGE": frame["ajcc_pathologic_m"].str.upper(),
            "PATH_N_STAGE": frame["ajcc_pathologic_n"].str.upper(),
            "PATH_T_STAGE": frame["ajcc_pathologic_t"].str.upper(),
            "PRIOR_DX": empty("prior_malignancy").str.title(),
            "OS_STATUS": frame["E"].map({0: "0:LIVING", 1: "1:DECEASED"}),
            "OS_MONTHS": (frame["T"] / 30.417).round(8),
        }
    )
    file = _written(folder / "data_clinical_patient.txt", table, "")
    comments = "".join(
        f"#{word}\tof the\tcolumns\n" for word in ("Names", "Words", "Kinds", "1")
    )
    file.write_text(comments + file.read_text())
    return file


def xena_old(folder: Path, frame: pd.DataFrame) -> Path:
    """Two samples for every fourth patient, gzipped as the hub hands it out."""
    therapy = frame["treatment_or_therapy"]
    table = _xena_fields(frame, ("ajcc_pathologic_stage",)).assign(
        pathologic_M=frame["ajcc_pathologic_m"],
        pathologic_N=frame["ajcc_pathologic_n"],
        pathologic_T=frame["ajcc_pathologic_t"],
        system_version=frame["ajcc_staging_system_edition"],
        postoperative_rx_tx=therapy.where(therapy != "not reported", None).str.upper(),
    )
    file = _written(folder / "phenotype.tsv", _by_sample(table), "")
    packed = folder / "phenotype.tsv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    return packed


def xena_new(folder: Path, frame: pd.DataFrame) -> Path:
    """Treatments as lists in one cell."""
    kinds, given = [], []
    for _, one in frame.iterrows():
        treatments = _treatments(one)
        kinds.append(str([kind for kind, _ in treatments]))
        given.append(str([told for _, told in treatments]))
    table = _xena_fields(frame, ("tumor_stage",))
    for field in (*sorted(_STAGES), _EDITION):
        table[f"{field}.diagnoses"] = frame[field]
    table["treatment_type.treatments.diagnoses"] = kinds
    table["treatment_or_therapy.treatments.diagnoses"] = given
    return _written(folder / "clinical.tsv", _by_sample(table), "")


def _xena_fields(frame: pd.DataFrame, without: tuple[str, ...]) -> pd.DataFrame:
    forms = {
        "ajcc_pathologic_m",
        "ajcc_pathologic_n",
        "ajcc_pathologic_t",
        "ajcc_staging_system_edition",
        "treatment_or_therapy",
    }
    fields = [name for name in FIELDS if name not in forms and name not in without]
    return frame[fields].rename(
        columns=lambda n: f"{n}.{'demographic' if n in FIELDS[:4] else 'diagnoses'}"
    )


def _by_sample(table: pd.DataFrame) -> pd.DataFrame:
    first = table.assign(
        **{"submitter_id": table.index, "submitter_id.samples": table.index + "-01A"}
    )
    second = first.iloc[::4].assign(**{"submitter_id.samples": first.index[::4] + "-06A"})
    return pd.concat([first, second])


def outcome_csv(folder: Path, frame: pd.DataFrame) -> Path:
    return _written(folder / "outcome.csv", _outcome(frame), "#N/A")


def outcome_xlsx(folder: Path, frame: pd.DataFrame) -> Path:
    import openpyxl

    workbook = openpyxl.Workbook()
    sheet = workbook.create_sheet("TCGA-CDR")
    table = _outcome(frame)
    sheet.append(["", *table.columns])
    for number, row in enumerate(table.itertuples(index=False)):
        sheet.append([number, *("#N/A" if pd.isna(cell) else cell for cell in row)])
    file = folder / "outcome.xlsx"
    workbook.save(file)
    return file


def _outcome(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bcr_patient_barcode": frame.index,
            "type": frame.get("type", CANCER),
            "gender": frame["gender"].str.upper(),
            "OS": frame["E"],
            "OS.time": frame["T"],
        }
    )


def regions_csv(folder: Path, regions: dict[str, str] | None = None) -> Path:
    pairs = REGIONS if regions is None else regions
    table = pd.DataFrame({"TSS Code": list(pairs), "Region": list(pairs.values())})
    return _written(folder / "regions.csv", table, "")


def _written(file: Path, table: pd.DataFrame, missing: str) -> Path:
    delimiter = "," if file.suffix == ".csv" else "\t"
    table.to_csv(file, sep=delimiter, index=False, na_rep=missing)
    return file


Writer = Callable[[Path, pd.DataFrame], Path]

_STAGES = {f"ajcc_pathologic_{part}" for part in ("m", "n", "t")}
_EDITION = "ajcc_staging_system_edition"
_OLD = {
    "ethnicity",
    "gender",
    "race",
    "morphology",
    "primary_diagnosis",
    "prior_malignancy",
    "site_of_resection_or_biopsy",
    "tissue_or_organ_of_origin",
    "tumor_stage",
}
#: Each layout: its writer, its name, the fields it carries exactly.
LAYOUTS: dict[str, tuple[Writer, str, set[str]]] = {
    "tcgabiolinks_2020": (tcgabiolinks_2020, "TCGAbiolinks", set(FIELDS)),
    "tcgabiolinks_2022": (tcgabiolinks_2022, "TCGAbiolinks", set(FIELDS) - {"tumor_stage"}),
    "portal_2019": (portal_2019, "GDC portal 2019", _OLD | {"age_at_index"}),
    "portal_2020": (portal_2020, "GDC portal 2020 to 2023", set(FIELDS) - {"tumor_stage"}),
    "portal_2024": (portal_2024, "GDC portal since 2024", set(FIELDS) - {"tumor_stage"}),
    "cbioportal": (
        cbioportal,
        "cBioPortal",
        _STAGES
        | {"age_at_index", "ethnicity", "gender", "race", "ajcc_pathologic_stage", _EDITION}
        | {"icd_10_code", "morphology", "prior_malignancy", "prior_treatment"},
    ),
    "xena_old": (xena_old, "UCSC Xena", set(FIELDS) - {"ajcc_pathologic_stage"}),
    "xena_new": (xena_new, "UCSC Xena", set(FIELDS) - {"tumor_stage"}),
}
