"""What a step over slides says while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from fedcox.cli.slides.progress import (
    duration_text,
    event_text,
    progress_text,
    step_display,
    tell_outcome,
)
from fedcox.slides.step import Outcome, StepOutcome, StepProgress


def at(outcome: Outcome, done: int = 3, tiles: int = 1200, reason: str = "") -> StepProgress:
    return StepProgress("s1", outcome, done, 20, 1, tiles, 4.0, reason)


def test_slides_tiles_per_second_and_time_left() -> None:
    # Two of this run in 4 s, 17 to go: 34 s.
    assert progress_text(at("made")) == "3/20 slides, 1,200 tiles, 300 tiles/s, 0:00:34 left"
    assert progress_text(at("kept", done=1, tiles=0)) == "1/20 slides"
    assert progress_text(at("made", done=20, tiles=0)) == "20/20 slides"


def test_only_what_somebody_must_know_is_a_line_of_its_own() -> None:
    assert event_text(at("failed", reason="It is cut off.")) == "s1: failed. It is cut off."
    assert "other settings" in str(event_text(at("redone")))
    assert "another process" in str(event_text(at("busy")))
    assert event_text(at("made")) is None
    assert event_text(at("kept")) is None


def test_where_nobody_looks_there_are_plain_lines_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("fedcox.cli.slides.progress.time.monotonic", lambda: now[0])
    with step_display("laying tiles") as watch:
        watch(at("made"))
        now[0] = 11.0
        watch(at("made", done=4))
        watch(at("made", done=5))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("laying tiles: 4/20 slides, 1,200 tiles")


def test_on_a_terminal_failures_stay_to_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with step_display("laying tiles") as watch:
        watch(at("failed", reason="It is [cut] off."))
    assert "s1: failed. It is [cut] off." in capsys.readouterr().err


def test_failures_end_with_status_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = StepOutcome(("a",), ("b",), ("c", "d"), ("e",), {}, 5000, 3725.0)
    tell_outcome(outcome, tmp_path, "tiles")
    assert capsys.readouterr().out == (
        f"{tmp_path / 'tiles'}: slides 2 made (1 anew, since settings changed), 2 kept from "
        "before, 1 left to another process, 0 failed; 5,000 tiles; 1:02:05.\n"
    )
    with pytest.raises(typer.Exit) as stopped:
        tell_outcome(StepOutcome(failed={"a": "why"}), tmp_path, "tiles")
    assert stopped.value.exit_code == 1
    assert "failures.csv" in capsys.readouterr().out


def test_durations() -> None:
    assert [duration_text(s) for s in (0.2, 59.6, 3600)] == ["0:00:00", "0:01:00", "1:00:00"]
