"""Plant values that nobody would write by chance, and look for them in what is raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.data.cohort_file import read_cohort
from fedcox.data.encoding import cohort_from_frame, cohorts_by_center, encode_covariates
from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.errors import CohortError

SCHEMA = CohortSchema(
    time="time",
    event="status",
    covariates=(
        NumberColumn("age", minimum=0, maximum=120),
        CategoryColumn("stage", levels=("I", "II"), reference="I"),
    ),
    patient_id="patient",
)
COLUMNS = ("patient", "time", "status", "age", "stage")

# Long digits and rare letters, which no count, bound or word of a message can be taken for.
texts = st.text(alphabet="QXZqxzÄß7", min_size=6, max_size=12)
numbers = st.integers(min_value=10**8, max_value=10**12).map(lambda n: n * 10 + 7)
cells = st.one_of(
    texts, numbers, numbers.map(float), numbers.map(lambda n: -n), numbers.map(str)
)
tables = st.integers(min_value=1, max_value=5).flatmap(
    lambda rows: st.fixed_dictionaries(
        {name: st.lists(cells, min_size=rows, max_size=rows) for name in COLUMNS}
    )
)


def everything_told(error: BaseException) -> str:
    """The message and whatever a traceback would print with it."""
    lines = traceback.format_exception(error)
    return "".join(line for line in lines if not line.startswith("  File"))


def planted(values: list[Any]) -> set[str]:
    return {str(value).removesuffix(".0").lstrip("-") for value in values}


def assert_silent(error: BaseException, values: list[Any]) -> None:
    told = everything_told(error)
    assert not [value for value in planted(values) if value in told]


@settings(max_examples=60)
@given(columns=tables, text=st.booleans())
def test_no_error_about_a_table_shows_a_value(
    columns: dict[str, list[Any]], text: bool
) -> None:
    values = [value for column in columns.values() for value in column]
    # A repeated id, in an index of ids: an index is never shown either.
    frame = pd.DataFrame(columns, dtype=str if text else object)
    frame = pd.concat([frame, frame]).set_index("patient", drop=False)
    frame.index.name = None
    for encode in (
        lambda: cohort_from_frame(frame, SCHEMA, source="A"),
        lambda: cohorts_by_center(frame, SCHEMA, center="stage", source="A"),
        lambda: encode_covariates(frame, SCHEMA, source="A"),
    ):
        with pytest.raises(CohortError) as raised:
            encode()
        assert_silent(raised.value, values)


@settings(max_examples=40)
@given(columns=tables, damage=st.sampled_from(["none", "no header", "open quote", "short row"]))
def test_no_error_about_a_file_shows_a_value(
    columns: dict[str, list[Any]], damage: str
) -> None:
    values = [value for column in columns.values() for value in column]
    # A follow-up time is a number: by it, a file without a header line is recognised.
    columns = {**columns, "time": [str(10**9 + row) for row in range(len(columns["time"]))]}
    content = pd.DataFrame(columns).to_csv(index=False, header=damage != "no header")
    if damage == "open quote":
        content += f'"{columns["stage"][0]},1,2,3,4\n'
    if damage == "short row":
        content += f"{columns['stage'][0]},{columns['age'][0]}\n"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "patients.csv"
        file.write_bytes(content.encode())
        with pytest.raises(CohortError) as raised:
            read_cohort(file, SCHEMA)
    assert_silent(raised.value, [*values, *columns["time"]])


def test_a_missing_column_names_columns_and_not_cells() -> None:
    frame = pd.DataFrame({"Age": [734519], "phase": ["QXZ"]})
    with pytest.raises(CohortError, match="Did you mean 'Age'") as raised:
        encode_covariates(frame, SCHEMA, source="A")
    assert_silent(raised.value, [734519, "QXZ"])
