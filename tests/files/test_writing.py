from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcox.errors import OutputError
from fedcox.files.writing import remove_leftovers, whole_file, whole_folder, write_atomically


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


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    old = os.umask(request.param)
    yield
    os.umask(old)


def modes(folder: Path) -> set[tuple[bool, str]]:
    """Whether a folder or a file, and what who may do with it."""
    paths = [folder, *folder.rglob("*")]
    return {(path.is_dir(), oct(stat.S_IMODE(path.stat().st_mode))) for path in paths}


@pytest.mark.usefixtures("_umask")
def test_only_the_owner_reads_a_file_also_in_place_of_one_that_others_read(
    tmp_path: Path,
) -> None:
    home = tmp_path / "new"
    with whole_file(home / "file.txt") as part:
        assert stat.S_IMODE(part.stat().st_mode) == 0o600  # before anything is in it
        part.write_text("whole")
    assert modes(home) == {(True, "0o700"), (False, "0o600")}
    (home / "file.txt").chmod(0o644)
    write_atomically(home / "file.txt", "again")
    assert modes(home) == {(True, "0o700"), (False, "0o600")}


@pytest.mark.usefixtures("_umask")
def test_only_the_owner_reads_a_folder_and_what_is_in_it(tmp_path: Path) -> None:
    for _ in range(2):
        with whole_folder(tmp_path / "run") as part:
            (part / "inner").mkdir()
            (part / "inner" / "file.txt").write_text("whole")
        assert modes(tmp_path / "run") == {(True, "0o700"), (False, "0o600")}
        (tmp_path / "run").chmod(0o755)
