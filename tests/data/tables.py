"""Small tables of invented patients."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn

SCHEMA = CohortSchema(
    time="days",
    event="died",
    covariates=(
        NumberColumn("age", minimum=0, maximum=120),
        CategoryColumn("stage", levels=("I", "II", "III"), reference="I"),
    ),
)


def table(**columns: Any) -> pd.DataFrame:
    """Four patients; a column given replaces one of theirs."""
    patients: dict[str, Any] = {
        "age": [50, 61, 72, 44],
        "stage": ["I", "II", "III", "II"],
        "days": [100, 200, 300, 400],
        "died": [1, 0, 1, 0],
    }
    return pd.DataFrame({**patients, **columns})
