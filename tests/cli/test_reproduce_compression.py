from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedcox.paper.compression as paper_compression
from fedcox.paper.compression import CompressionStudy, Sizes
from tests.cli.conftest import Run


def test_the_study_of_compression_writes_numbers_and_a_page(
    fedcox: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_compression, "QUICK", Sizes(300, 2, (2, 3), (3, 6), (2, 4)))
    command = ("reproduce", "compression", "--quick", "--out", tmp_path / "run")
    ended = fedcox(*command)
    assert ended.status == 0
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"compression.json", "compression.html"}
    record = json.loads((tmp_path / "run" / "compression.json").read_text(encoding="utf-8"))
    assert CompressionStudy.from_json(record).columns == (2, 3)
    again = fedcox(*command)
    assert again.status == 2
    assert "--overwrite" in again.err
