from __future__ import annotations

from pathlib import Path

import pytest

from fedcox.errors import OutputError
from fedcox.slides.whole_file import remove_leftovers, whole_file


def test_the_file_appears_at_the_end_and_nothing_is_left_beside(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with whole_file(target) as part:
        part.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(target) as part:
        part.write_text(str(1 / 0))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    with pytest.raises(OutputError, match="Cannot write"), whole_file(tmp_path / "taken" / "x"):
        pass


def test_leftovers_of_one_file_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    for name in (".a[1].h5.77.part", ".a1.h5.77.part", "a[1].h5"):
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path / "a[1].h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a1.h5.77.part", "a[1].h5"]
