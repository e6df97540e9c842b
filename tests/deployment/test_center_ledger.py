"""What left a hospital is in its ledger, whatever happens next."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
from fedcox.deployment.center_folder import NO_LIMITS, CenterFolder, CenterSettings
from fedcox.deployment.study_admission import StudyAdmission
from fedcox.engines.nvflare.center_end import Leaving
from fedcox.files.followed import append_rows


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was put on the disk, in turn."""
    sizes: list[int] = []

    def record(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", record)
    return sizes


def test_a_row_of_the_ledger_is_on_the_disk_before_the_reply_leaves(
    tmp_path: Path, synced: list[int]
) -> None:
    folder = CenterFolder(tmp_path, "A", "trial", "127.0.0.1", 8002, date(2030, 1, 1))
    CenterSettings("patients.csv", NO_LIMITS).write(folder.settings)
    admission = StudyAdmission(folder)
    row = Leaving("gradient", 4, "none", 0.0)
    admission.leaving([row])
    first = folder.ledger.stat().st_size
    assert first in synced
    synced.clear()
    admission.leaving([row])
    assert synced == [2 * first]


def test_a_file_that_nothing_depends_on_is_not_waited_for(
    tmp_path: Path, synced: list[int]
) -> None:
    append_rows(tmp_path / "progress.jsonl", [{"kind": "round"}], on_disk=False)
    assert synced == []
