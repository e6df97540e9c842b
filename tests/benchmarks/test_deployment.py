from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
from benchmarks.deployment import RESULT, Measured, Timed, _timed
from fedcox.deployment.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
QUICK = Timed(9, (0.04, 0.05, 0.06), (0.05, 0.06, 0.5), 5.0, 8.0, True)
SLOW = Timed(9, (0.08, 0.10, 0.12), (0.11, 0.18, 0.19), 7.0, 9.0, True)


def told(run: RunFolder, *steps: tuple[str, float]) -> None:
    """Rounds by their kind and when they ended, in a run's own words."""
    lines = [
        {"kind": "exchange", "at": at, "step": step, "seconds": {"A": 0.5}}
        for step, at in steps
    ]
    lines.insert(3, {"kind": "code", "at": 13.0})
    lines.append({"kind": "done", "at": 40.0})
    run.progress.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_round_lasts_from_the_end_of_the_one_before_to_its_own(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    told(
        run,
        *[("ping", 10.0), ("ping", 11.0), ("ping", 12.5)],
        *[("study", 20.0), ("ask", 22.0), ("ask", 25.0)],
        *[("ping", 28.0), ("ping", 29.0)],
    )
    found = _timed(run, 2.0, same_bits=True)
    assert found.asked == (2.0, 3.0)  # with the coordinator's own work before each
    assert found.empty == (1.0, 1.5, 1.0)  # not 3.0: it came after other work
    assert found.rounds == 3
    assert found.start == 7.5
    assert found.study == 40.0 - 13.0 - (29.0 - 25.0)


def test_every_round_counts_against_the_empty_ones_of_its_own_study() -> None:
    measured = Measured("2026-01-01", {}, 2, 5, 50_000, (QUICK, SLOW))
    found = measured.summary
    assert found["ratio_of_each_study"] == pytest.approx([1.2, 1.8])
    assert found["ratio"] == pytest.approx((1.2 + 1.8) / 2)  # of 1, 1.1, 1.2, 1.8, 1.9, 10
    assert found["worst_study"] == pytest.approx(1.8)
    assert found["round_slowest"] == 0.5
    assert found["same_bits"] is True
    words = "\n".join(measured.lines())
    assert found["ratio_quartiles"] == pytest.approx([1.125, 1.875])
    assert "at most 1.5: 1.50 (half of them between " in words
    assert "for each study: 1.20, 1.80; the worst 1.80" in words


def test_the_stored_run_keeps_every_study_and_meets_its_targets() -> None:
    stored = json.loads((ROOT / RESULT).read_text())
    studies = tuple(Timed(**each) for each in stored["studies"])
    assert len(studies) >= 5
    assert stored["ratio_of_each_study"] == pytest.approx([each.ratio for each in studies])
    assert stored["rounds"] <= 9
    assert stored["ratio"] <= 1.5
    assert stored["empty_round"] <= 0.3
    assert stored["same_bits"] is True
