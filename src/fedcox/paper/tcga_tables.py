"""Tables of several cancers of TCGA, read together: what is wrong is told at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedcox.data.tcga import TcgaTable, read_tcga
from fedcox.errors import InputError


def tcga_tables(
    files: Mapping[str, str], outcome: Path | None, regions: Path
) -> dict[str, TcgaTable]:
    """One table per cancer, from the clinical file of each."""
    tables: dict[str, TcgaTable] = {}
    faults: list[str] = []
    for cancer, file in files.items():
        try:
            tables[cancer] = read_tcga(
                clinical=file, outcome=outcome, regions=regions, cancer=cancer
            )
        except InputError as error:
            faults += [error.subject, *error.faults]
    if faults:
        raise InputError(
            "The tables of TCGA cannot be used as they are.", [*dict.fromkeys(faults)]
        )
    return tables
