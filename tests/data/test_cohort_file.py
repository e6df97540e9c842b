from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedcox.files.reading as memory
from fedcox.data.cohort_file import read_cohort, read_table
from fedcox.errors import CohortError
from tests.data.tables import SCHEMA, table

PLAIN = "age,stage,days,died\n50,I,100,1\n61,II,200,0\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "patients.csv"


def error(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CohortError) as raised:
        read_cohort(file, SCHEMA)
    assert str(file) in raised.value.subject
    return str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.rstrip(),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", " , "),
        "\ufeff" + PLAIN,
        "\n" + PLAIN + "\n\n",
        PLAIN + ",,,\n,,,\n",
        'age,stage,days,died,"note, long"\n50,I,100,1,"a\nb, ""c"""\n61,II,200,0,\n',
    ],
)
def test_the_same_patients_are_read_from_every_dialect(file: Path, content: str) -> None:
    file.write_bytes(content.encode())
    cohort = read_cohort(file, SCHEMA).cohort
    np.testing.assert_array_equal(cohort.covariates, [[50, 0, 0], [61, 1, 0]])
    np.testing.assert_array_equal(cohort.time, [100, 200])
    np.testing.assert_array_equal(cohort.event, [True, False])


def test_codes_with_leading_zeros_stay_text(file: Path) -> None:
    file.write_text("ward,days\n01,5\n1,6\n")
    assert read_table(file)["ward"].tolist() == ["01", "1"]


def test_numbers_keep_every_digit(file: Path) -> None:
    values = np.random.default_rng(0).normal(size=200)
    frame = pd.DataFrame({"age": values + 50, "stage": "I", "days": 5, "died": 1})
    frame.to_csv(file, index=False)
    np.testing.assert_array_equal(
        read_cohort(file, SCHEMA).cohort.covariates[:, 0], frame["age"].to_numpy()
    )


def test_parquet_gives_the_cohort_of_the_csv_file(tmp_path: Path, file: Path) -> None:
    frame = table(stage=pd.Categorical(["I", "II", "III", "II"]))
    frame.to_csv(file, index=False)
    parquet = tmp_path / "patients.parquet"
    frame.set_index("age").to_parquet(parquet)  # an index is a column like any other
    left, right = read_cohort(file, SCHEMA).cohort, read_cohort(parquet, SCHEMA).cohort
    np.testing.assert_array_equal(left.covariates, right.covariates)
    np.testing.assert_array_equal(left.time, right.time)
    np.testing.assert_array_equal(left.event, right.event)


def test_faults_are_told_by_the_line_of_the_file(file: Path) -> None:
    text = error(file, PLAIN + "x,I,100,1\n70,V,100,1\n")
    assert "Column 'age': 1 cell is not a number (line 4)" in text
    assert "Column 'stage': 1 patient has a level the study does not know (line 5)" in text


def test_faults_are_told_by_the_row_where_lines_are_uncertain(file: Path) -> None:
    assert "(row 3)" in error(file, "\n" + PLAIN + "x,I,100,1\n")


def test_a_center_is_named_beside_its_file(file: Path) -> None:
    file.write_text(PLAIN.replace("50", "x"))
    with pytest.raises(CohortError, match=r"^Lyon \(.*patients\.csv\): "):
        read_cohort(file, SCHEMA, center="Lyon")


@pytest.mark.parametrize("content", ["", " \n\n", "\ufeff", "age,stage,days,died\n"])
def test_a_file_without_patients_is_empty(file: Path, content: str) -> None:
    assert "this file is empty" in error(file, content)


def test_a_parquet_file_without_patients_is_empty(tmp_path: Path) -> None:
    parquet = tmp_path / "patients.parquet"
    table().head(0).to_parquet(parquet)
    with pytest.raises(CohortError, match="empty"):
        read_table(parquet)


def test_a_file_that_is_not_utf8_is_refused_with_its_line(file: Path) -> None:
    text = error(file, (PLAIN + "70,Ié,100,1\n").encode("latin-1"))
    assert "not UTF-8 text (line 4)" in text
    assert "UTF-16" in error(file, PLAIN.encode("utf-16"))


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    parquet = tmp_path / "patients.parquet"
    parquet.write_text(PLAIN)
    with pytest.raises(CohortError, match="not a Parquet file"):
        read_table(parquet)


def test_damaged_metadata_of_parquet_is_refused(tmp_path: Path) -> None:
    parquet = tmp_path / "patients.parquet"
    table().to_parquet(parquet)
    whole = parquet.read_bytes()
    assert b"stage" in whole
    parquet.write_bytes(whole.replace(b"stage", b"st\xffge"))
    with pytest.raises(CohortError, match="not a Parquet file"):
        read_table(parquet)
    rng, read = np.random.default_rng(0), 0
    for _ in range(200):
        content = bytearray(whole)
        content[rng.integers(len(content))] = rng.integers(256)
        parquet.write_bytes(content)
        try:
            read_cohort(parquet, SCHEMA)
            read += 1
        except CohortError as told:
            assert str(parquet) in str(told)  # noqa: PT017
    assert 0 < read < 200


def test_a_file_that_declares_more_than_the_machine_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet, text = tmp_path / "patients.parquet", tmp_path / "patients.csv"
    many = pd.DataFrame({"age": np.full(100_000, 50.0), "stage": "I", "days": 5, "died": 1})
    many.to_parquet(parquet)
    many.to_csv(text)
    size = parquet.stat().st_size
    assert size < 20_000
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2_000_000)
    read_table(text)
    with pytest.raises(CohortError, match=r"too large.*\n.*declares 0\.0 GiB"):
        read_table(parquet)
    monkeypatch.setattr(memory, "machine_bytes", lambda: size)
    with pytest.raises(CohortError, match="too large"):
        read_table(text)


def test_rows_of_another_length_are_counted_and_not_shown(file: Path) -> None:
    text = error(file, PLAIN + "63,I,412\n64,II,413,1,9\n")
    assert "2 rows have more or fewer cells than the header, which has 4 (rows 4, 5" in text
    assert "412" not in text
    assert "413" not in text


def test_a_quotation_mark_left_open_does_not_swallow_patients(file: Path) -> None:
    text = error(file, 'age,stage,days,died,note\n50,I,100,1,"open\n61,II,200,0,\n')
    assert "quotation mark" in text


def test_a_quotation_mark_left_open_in_the_header_shows_no_patient(file: Path) -> None:
    patients = "63,QXZ,412,1\n"
    for count in (2, 20_000):  # the header's reader gives up on names of 131,072 letters
        text = error(file, 'age,stage,days,"died\n' + patients * count)
        assert "quotation mark" in text
        assert "QXZ" not in text


def test_a_nameless_first_column_is_no_trouble(file: Path) -> None:
    table().to_csv(file, sep="\t")
    assert read_cohort(file, SCHEMA).cohort.patients == 4


def test_a_header_line_that_is_missing_is_recognised(file: Path) -> None:
    text = error(file, "63,female,412,1\n64,male,413,0\n")
    assert "the first line must hold the columns' names" in text
    assert "female" not in text


def test_a_column_that_is_there_twice_is_refused(file: Path) -> None:
    assert "Column 'age' is there 2 times" in error(file, PLAIN.replace("stage", "age"))


def test_what_is_no_file_of_patients_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="there is no such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(CohortError, match="this is a folder"):
        read_table(tmp_path)
    with pytest.raises(CohortError, match="this kind of file is not read"):
        read_table(tmp_path / "patients.xlsx")
