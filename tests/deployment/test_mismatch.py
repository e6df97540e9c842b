from __future__ import annotations

from pathlib import Path

import pytest

from fedcox.errors import InputError
from tests.deployment.hospitals import CENTERS, Hospitals
from tests.deployment.test_study_run import approved, conducted, result


def test_a_center_that_reads_the_columns_in_another_way_is_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hospitals = Hospitals(tmp_path)
    approved(hospitals)
    monkeypatch.setattr(
        "fedcox.deployment.study_admission.schema_digest", lambda study: b"other"
    )
    run = conducted(hospitals)
    with pytest.raises(InputError) as caught:
        result(run)
    assert caught.value.faults == tuple(
        f"{name}: its answer cannot be used: It reads the study's columns in another way."
        for name in CENTERS
    )
    # Nothing was asked, so nothing left.
    assert not any(folder.ledger.exists() for folder in hospitals.folders.values())
