from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedcox.paper.privacy as paper_privacy
from tests.cli.conftest import Run
from tests.paper.test_privacy import example


def test_it_writes_numbers_and_a_page(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_privacy, "run_privacy", lambda quick, progress: example())
    ended = fedcox("reproduce", "privacy", "--quick", "--out", tmp_path / "run")
    assert ended.status == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"privacy.json", "privacy.html"}
    record = json.loads((tmp_path / "run" / "privacy.json").read_text(encoding="utf-8"))
    assert len(record["claims"]) == 5
