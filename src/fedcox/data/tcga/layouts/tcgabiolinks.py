"""The table of R's TCGAbiolinks, `GDCquery_clinic(…, "clinical")`: one row per patient.

Exports of 2020 have `tumor_stage`, later ones have not.
"""

from __future__ import annotations

import pandas as pd

from fedcox.data.tcga.clinical import FIELDS, Clinical, Layout, one_row_per_patient, selected

_TREATMENT = "treatments_pharmaceutical_treatment_or_therapy"


def _read(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    sources = {field: field for field in FIELDS} | {"treatment_or_therapy": _TREATMENT}
    return Clinical(LAYOUT.name, selected(rows, sources))


LAYOUT = Layout("TCGAbiolinks", ("submitter_id", "age_at_index", _TREATMENT), _read)
