from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fedcox.errors import OutputError
from fedcox.files.locks import locked, take_lock


@pytest.mark.parametrize("name", ["", "a-file"])
def test_one_at_a_time_holds_a_file_or_a_folder(tmp_path: Path, name: str) -> None:
    with locked(tmp_path / name) as first, locked(tmp_path / name) as second:
        assert (first, second) == (True, False)
    with locked(tmp_path / name) as later:
        assert later


@pytest.mark.parametrize("patience", [20.0, float("inf")])
def test_whoever_has_patience_waits_for_the_other(tmp_path: Path, patience: float) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    assert take_lock(handle)
    end = threading.Timer(0.1, os.close, (handle,))
    end.start()
    begun = time.monotonic()
    with locked(tmp_path, patience=patience) as ours:
        assert ours
    assert 0.05 < time.monotonic() - begun < 10.0
    end.join()


def test_a_place_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="Cannot lock"), locked(tmp_path / "no" / "file"):
        pass


def test_a_lock_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
