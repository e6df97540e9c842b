"""None"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedcox.errors import InputError, OutputError
from fedcox.evaluation.result import (
    FORMAT,
    Row,
    open_results,
    read_results,
    write_results,
)

HEADER = {"experiment": "made up", "recipe": {"ridge": 0.0}, "seeds": [0, 1]}
ROW = Row(
    experiment="made up",
    seed=0,
    evaluation="folds",
    fold=1,
    center=None,
    scheme="DT-FL",
    c_index=0.7123456789012345,
    patients=20,
    events=9,
    trained_on=80,
    seconds=0.1,
    rounds=5,
    bytes_up=10,
    bytes_down=20,
    notes=("Zürich – “small”.",),
)
ROWS = [
    ROW,
    replace(ROW, fold=2, c_index=None),
    replace(ROW, evaluation="left out", fold=None, center="2"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_rows_come_back_as_they_went_to_the_last_digit(file: Path) -> None:
    results = open_results(file, HEADER)
    for row in ROWS:
        results.add(row)
    header, rows = read_results(file)
    assert rows == tuple(ROWS)
    assert header == {"format": FORMAT, **HEADER}
    assert len({row.key for row in rows}) == 3


def test_a_row_is_on_disk_as_soon_as_it_is_added(file: Path) -> None:
    results = open_results(file, HEADER)
    results.add(ROW)
    assert file.read_text(encoding="utf-8").endswith(ROW.to_line())


def test_the_same_experiment_goes_on(file: Path) -> None:
    open_results(file, HEADER).add(ROWS[0])
    again = open_results(file, HEADER)
    assert again.rows == ROWS[:1]
    again.add(ROWS[1])
    assert read_results(file)[1] == tuple(ROWS[:2])


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_cut_short_is_dropped_and_the_rest_kept(file: Path, cut: int) -> None:
    results = open_results(file, HEADER)
    results.add(ROWS[0])
    whole = file.read_bytes()
    file.write_bytes(whole + ROWS[1].to_line().encode()[:-cut])
    assert read_results(file)[1] == (ROWS[0],)
    assert file.read_bytes() != whole  # reading alone changes nothing
    again = open_results(file, HEADER)
    assert file.read_bytes() == whole
    again.add(ROWS[1])
    assert read_results(file)[1] == tuple(ROWS[:2])


def test_an_empty_file_is_begun(file: Path) -> None:
    file.write_bytes(b"")
    open_results(file, HEADER).add(ROW)
    assert read_results(file)[1] == (ROW,)


def test_a_file_of_another_experiment_is_refused_and_left_alone(file: Path) -> None:
    open_results(file, HEADER).add(ROW)
    before = file.read_bytes()
    other = {**HEADER, "recipe": {"ridge": 1.5}, "seeds": [0], "folds": 5}
    with pytest.raises(InputError, match="another experiment") as raised:
        open_results(file, other)
    told = "\n".join(raised.value.faults)
    assert "recipe, ridge: the file has 0.0, and 1.5 was asked for." in told
    assert "seeds: the file has [0, 1], and [0] was asked for." in told
    assert "folds: the file has none, and 5 was asked for." in told
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "content", ["patient,age\n1,2\n", '{"format": "other"}\n', "[1]\n", "{"]
)
def test_a_file_of_another_kind_is_refused_and_left_alone(file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="not a file of evaluation results"):
        open_results(file, HEADER)
    assert file.read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    "line", ["nonsense\n", "{}\n", '{"seed": 1}\n', ROW.to_line()[:-3] + "\n"]
)
def test_a_line_that_is_no_row_is_named_by_its_number(file: Path, line: str) -> None:
    open_results(file, HEADER).add(ROW)
    with file.open("a", encoding="utf-8") as more:
        more.write(line + ROWS[1].to_line())
    with pytest.raises(InputError, match="Line 3"):
        read_results(file)


def test_a_row_that_was_written_twice_counts_once(file: Path) -> None:
    results = open_results(file, HEADER)
    results.add(ROW)
    results.add(replace(ROW, seconds=9.0))
    assert read_results(file)[1] == (ROW,)


def test_a_file_that_is_not_there_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read_results(tmp_path / "nowhere.jsonl")
    with pytest.raises(OutputError, match="Cannot write"):
        open_results(tmp_path / "no" / "rows.jsonl", HEADER)


def test_the_finished_file_is_written_whole(file: Path) -> None:
    write_results(file, HEADER, ROWS)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert [json.loads(line)["fold"] for line in lines[1:]] == [1, 2, None]
    assert read_results(file)[1] == tuple(ROWS)
