"""What a spreadsheet did to a clinical table that passed through it."""

from __future__ import annotations

from dataclasses import replace

from fedcox.data.tcga.clinical import Clinical

_CODE = "morphology"
# 8140/3, once it has been taken for March of the year 8140.
_DATE = r"[A-Z][a-z]{2}-\d{2,4}|\d{1,2}-[A-Z][a-z]{2}"


def without_dates(clinical: Clinical) -> Clinical:
    """Leave morphology out where its codes became dates: 8260/3 and 8560/3 are one then."""
    if _CODE not in clinical.fields:
        return clinical
    spoilt = int(clinical.fields[_CODE].str.fullmatch(_DATE, na=False).sum())
    if not spoilt:
        return clinical
    note = (
        f"{_CODE} is left out: a spreadsheet turned {spoilt:,} of its codes into dates, which "
        "do not tell them apart any more."
    )
    fields = clinical.fields.drop(columns=_CODE)
    return replace(clinical, fields=fields, notes=(*clinical.notes, note))
