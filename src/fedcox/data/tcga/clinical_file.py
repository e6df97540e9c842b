"""Which of the known layouts a clinical table has, or what it lacks of each of them."""

from __future__ import annotations

import os

import pandas as pd

from fedcox.data.tcga.clinical import Clinical, Layout, recognised
from fedcox.data.tcga.layouts import LAYOUTS
from fedcox.data.tcga.outcome import is_outcome
from fedcox.data.tcga.spreadsheet import without_dates
from fedcox.data.tcga.text_table import read_text_table, with_gaps
from fedcox.data.wording import columns_there, listed
from fedcox.errors import InputError


def read_clinical(path: str | os.PathLike[str]) -> Clinical:
    """Read a clinical table of any known layout."""
    frame = with_gaps(read_text_table(path))
    layout = recognised(frame, LAYOUTS)
    if layout is None:
        raise InputError(
            f"{path}: this is no clinical table of TCGA in a layout that is known.",
            _faults(frame),
        )
    return without_dates(layout.read(frame))


def _faults(frame: pd.DataFrame) -> list[str]:
    names = {str(name) for name in frame.columns}
    if is_outcome(names):
        return [
            "It is the outcome table, TCGA-CDR. Pass it as the outcome, and as the clinical "
            f"table one of {_known()}."
        ]
    return [
        *(_compared(layout, names) for layout in LAYOUTS),
        columns_there(list(map(str, frame.columns))),
        f"Pass the table of patients from one of {_known()}, as it was downloaded.",
    ]


def _compared(layout: Layout, names: set[str]) -> str:
    found = [name for name in layout.needs if name in names]
    lacking = [name for name in layout.needs if name not in names]
    has = f"has {listed(found)}, " if found else ""
    return f"{layout.name}: {has}lacks {listed(lacking)}."


def _known() -> str:
    return listed([layout.name for layout in LAYOUTS], joint="or")
