"""Whether a patient was treated with drugs, from several treatment records.

The older exports have two records for each patient, one pharmaceutical and one of radiation,
and the recipe takes the former. The newer ones list every treatment by its kind.
"""

from __future__ import annotations

import pandas as pd

from fedcox.data.tcga.clinical import NOT_REPORTED

_PHARMACEUTICAL = frozenset(
    {
        "Pharmaceutical Therapy, NOS",
        "Chemotherapy",
        "Hormone Therapy",
        "Immunotherapy (Including Vaccines)",
        "Targeted Molecular Therapy",
    }
)


def pharmaceutical(patients: pd.Index, records: pd.DataFrame) -> pd.Series:
    """One value per patient: "yes" if any drug treatment says so, else "no", else what is told.

    `records` is indexed by patient and has the columns kind and given. A patient without a
    record of a drug is "not reported", as the exports with a record for everybody have it.
    """
    drugs = records[records["kind"].isin(_PHARMACEUTICAL) & records["given"].notna()]
    strongest = drugs.assign(rank=drugs["given"].map({"yes": 0, "no": 1}).fillna(2))
    told = strongest.sort_values("rank", kind="stable")["given"]
    return told[~told.index.duplicated()].reindex(patients).fillna(NOT_REPORTED)
