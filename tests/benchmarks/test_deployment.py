from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
from benchmarks.deployment import RESULT, Measured, Timed, _timed
from fedcox.deployment.runs import RunFolder

ROOT = Path(__file__).parents[2]
QUICK = Timed(9, (0.05, 0.06, 0.5), ((0.04, 0.05, 0.06),) * 3, 5.0, 8.0, True)
SLOW = Timed(9, (0.11, 0.18, 0.19), ((0.08, 0.10, 0.12),) * 3, 7.0, 9.0, True)


def told(run: RunFolder, *rounds: tuple[str, float, float]) -> None:
    """Rounds by their kind, when they began and ended, in a run's own words."""
    lines: list[dict[str, object]] = [
        {"kind": "exchange", "at": end, "step": step, "seconds": {"A": 0.1, "B": end - begun}}
        for step, begun, end in rounds
    ]
    lines.insert(2, {"kind": "code", "at": 13.0})
    lines.append({"kind": "done", "at": 40.0})
    run.progress.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_round_lasts_with_the_work_before_it_and_without_empty_ones(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    told(
        run,
        *[("ping", 10.0, 11.0), ("ping", 11.0, 12.0)],
        ("study", 14.0, 16.0),
        *[("ping", 16.5, 17.5), ("ping", 17.5, 18.75), ("ask", 18.75, 20.0)],
        *[("ping", 22.0, 23.0), ("ping", 23.0, 24.0), ("ask", 24.25, 26.0)],
        *[("ping", 28.0, 28.5), ("ping", 28.5, 29.5)],
    )
    found = _timed(run, 2.0, same_bits=True)
    # From the end of the message before to the first empty round, and from the last one on.
    assert found.asked == (0.5 + 1.25, 2.0 + 2.0)
    assert found.empty == ((1.25, 1.0, 1.0, 1.0), (1.0, 1.0, 0.5, 1.0))
    assert found.rounds == 3
    assert found.start == 8.0
    assert found.study == 40.0 - 13.0


def test_every_round_counts_against_the_empty_ones_beside_it() -> None:
    measured = Measured("2026-01-01", {}, 2, 5, 50_000, (QUICK, SLOW))
    found = measured.summary
    assert found["ratio_of_each_study"] == pytest.approx([1.2, 1.8])
    assert found["ratio"] == pytest.approx((1.2 + 1.8) / 2)  # of 1, 1.1, 1.2, 1.8, 1.9, 10
    assert found["worst_study"] == pytest.approx(1.8)
    assert found["whole_of_each_study"] == pytest.approx([0.61 / 0.15, 0.48 / 0.3])
    assert found["round_slowest"] == 0.5
    assert found["same_bits"] is True
    words = "\n".join(measured.lines())
    assert found["ratio_quartiles"] == pytest.approx([1.125, 1.875])
    assert "at most 1.5: 1.50 (half of them between " in words
    assert "for each study: 1.20, 1.80; the worst 1.80" in words
    assert "over as many empty ones: 4.07, 1.60" in words


def test_the_stored_run_keeps_every_study_and_meets_its_targets() -> None:
    stored = json.loads((ROOT / RESULT).read_text())
    studies = tuple(Timed(**each) for each in stored["studies"])
    assert len(studies) >= 8
    assert all(len(each.asked) == len(each.empty) == 8 for each in studies)
    assert stored["ratio_of_each_study"] == pytest.approx([each.ratio for each in studies])
    assert stored["rounds"] <= 9
    assert max(stored["ratio_of_each_study"]) <= 1.5
    assert stored["empty_round"] <= 0.3
    assert stored["same_bits"] is True
