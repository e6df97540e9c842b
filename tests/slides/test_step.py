"""The frame of every step: kept, made, redone, failed, busy; claims of the dead."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedcox.errors import OutputError, SlideError
from fedcox.files.locks import claimed
from fedcox.files.writing import whole_file
from fedcox.slides.step import (
    AbstractStep,
    Settings,
    SlideRow,
    StepProgress,
    StepRun,
    read_failures,
    run_step,
    slide_file,
    write_failures,
)
from tests.slides.drawn import Row


@dataclass(frozen=True)
class Copying(AbstractStep):
    """Writes a letter; slide "bad" cannot be used, and "full" meets a full disk."""

    letter: str = "a"

    name = "copy"

    def target(self, slide_id: str, work: Path) -> Path:
        return work / "copies" / f"{slide_id}.json"

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        if slide.slide_id == "early":
            raise SlideError("Nothing to begin with.", ["Run what comes before."])
        return {"letter": self.letter}

    def kept_settings(self, target: Path) -> Settings | None:
        try:
            kept: Settings = json.loads(target.read_text())
        except ValueError:
            return None
        return kept

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        tick(1)
        tick(1)
        if slide.slide_id == "bad":
            raise SlideError("It is bad.", ["Mend it."])
        if slide.slide_id == "full":
            raise OutputError("The disk is full.")
        with whole_file(self.target(slide.slide_id, work)) as part:
            part.write_text(json.dumps(dict(self.settings(slide, work))))
        return 3


def rows(*names: str) -> list[Row]:
    return [Row(name, None) for name in names]


def test_the_rest_goes_on_and_failures_are_named(tmp_path: Path) -> None:
    outcome = run_step(Copying(), rows("x", "bad", "early", "y"), tmp_path)
    assert outcome.made == ("x", "y")
    assert outcome.failed == {
        "bad": "It is bad. Mend it.",
        "early": "Nothing to begin with. Run what comes before.",
    }
    assert outcome.tiles == 6
    assert read_failures(tmp_path) == [
        ("bad", "copy", "It is bad. Mend it."),
        ("early", "copy", "Nothing to begin with. Run what comes before."),
    ]
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == ["x.json", "y.json"]


def test_what_is_done_is_kept_and_other_settings_are_redone(tmp_path: Path) -> None:
    run_step(Copying(), rows("x", "y"), tmp_path)
    before = (tmp_path / "copies" / "x.json").stat().st_mtime_ns
    (tmp_path / "copies" / "y.json").write_text("damaged")
    again = run_step(Copying(), rows("x", "y"), tmp_path)
    assert (again.kept, again.redone, again.made) == (("x",), ("y",), ())
    assert (tmp_path / "copies" / "x.json").stat().st_mtime_ns == before
    other = run_step(Copying("b"), rows("x", "y"), tmp_path)
    assert other.redone == ("x", "y")


def test_a_slide_that_fails_with_new_settings_does_not_keep_the_old_file(
    tmp_path: Path,
) -> None:
    target = Copying().target("bad", tmp_path)
    target.parent.mkdir()
    target.write_text(json.dumps({"letter": "old"}))
    run_step(Copying(), rows("bad"), tmp_path)
    assert not target.exists()


def test_an_error_of_the_disk_ends_the_step_and_gives_the_claim_back(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="full"):
        run_step(Copying(), rows("full", "x"), tmp_path)
    assert list((tmp_path / "copies").iterdir()) == []


def test_progress_counts_slides_tiles_and_time_left(tmp_path: Path) -> None:
    run_step(Copying(), rows("kept"), tmp_path)
    told: list[StepProgress] = []
    run_step(Copying(), rows("kept", "x", "y"), tmp_path, told.append)
    assert [(at.slide_id, at.outcome, at.done, at.tiles) for at in told] == [
        ("kept", "kept", 1, 0),
        ("x", "started", 1, 0),
        ("x", "working", 1, 1),
        ("x", "working", 1, 2),
        ("x", "made", 2, 3),
        ("y", "started", 2, 3),
        ("y", "working", 2, 4),
        ("y", "working", 2, 5),
        ("y", "made", 3, 6),
    ]
    assert told[0].seconds_left is None
    halfway = told[4]
    assert halfway.seconds_left == halfway.seconds  # one of two made


def test_a_slide_that_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    target = Copying().target("x", tmp_path)
    target.parent.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        claim = target.with_name("x.json.claim")
        claim.write_text(_claim(other.pid, started=_started(other.pid)))
        write_failures(tmp_path, "copy", {"x": "it failed there"}, ["x"])
        busy = run_step(Copying(), rows("x", "y"), tmp_path)
        assert (busy.busy, busy.made) == (("x",), ("y",))
        assert read_failures(tmp_path) == [("x", "copy", "it failed there")]
        other.communicate(b"\n")
    # It has ended and left its claim.
    assert run_step(Copying(), rows("x"), tmp_path).made == ("x",)
    assert not claim.exists()
    assert read_failures(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "age", "counts"),
    [
        ("", 0, True),  # made this moment, not yet written into
        ("", 120, False),
        ('{"pid": 1, "host": "elsewhere", "started": "", "time": 0}', 3600, True),
        ('{"pid": 1, "host": "elsewhere", "started": "", "time": 0}', 2 * 86_400, False),
    ],
)
def test_which_claims_count(tmp_path: Path, text: str, age: float, counts: bool) -> None:
    claim = tmp_path / "x.h5.claim"
    claim.write_text(text)
    at = time.time() - age
    os.utime(claim, (at, at))
    with claimed(tmp_path / "x.h5") as ours:
        assert ours is not counts
    assert claim.exists() is counts


def test_a_claim_under_our_own_number_or_a_reused_one_is_of_a_dead_process(
    tmp_path: Path,
) -> None:
    claim = tmp_path / "x.h5.claim"
    for pid in (os.getpid(), os.getppid()):
        claim.write_text(_claim(pid, started="long ago"))
        with claimed(tmp_path / "x.h5") as ours:
            assert ours


def test_leftovers_of_a_killed_writer_go_when_the_slide_is_claimed(tmp_path: Path) -> None:
    (tmp_path / ".x.h5.99.part").write_text("half")
    with claimed(tmp_path / "x.h5") as ours:
        assert ours
        assert not (tmp_path / ".x.h5.99.part").exists()


def test_several_slides_may_be_under_way(tmp_path: Path) -> None:
    run = StepRun(Copying(), tmp_path, lambda _: None, 3)
    x, y, z = rows("x", "y", "z")
    assert all(run.begin(slide) for slide in (x, y, z))
    run.tick(y, 5)
    run.finish(y, 7)
    run.fail(x, SlideError("No."))
    run.close()
    outcome = run.outcome()
    assert (outcome.made, dict(outcome.failed), outcome.tiles) == (("y",), {"x": "No."}, 7)
    assert not list(tmp_path.rglob("*.claim"))


def test_rows_of_other_steps_stay(tmp_path: Path) -> None:
    write_failures(tmp_path, "segment", {"a": "one", "b": "two, with\ncomma"}, ["a", "b"])
    write_failures(tmp_path, "tile", {"a": "three"}, ["a"])
    write_failures(tmp_path, "segment", {}, ["a"])
    assert read_failures(tmp_path) == [
        ("a", "tile", "three"),
        ("b", "segment", "two, with\ncomma"),
    ]


def test_a_slide_without_a_file_is_told() -> None:
    with pytest.raises(SlideError, match="names no file"):
        slide_file(Row("x", None))
    with pytest.raises(SlideError, match="There is no file"):
        slide_file(Row("x", Path("/nowhere/x.svs")))


def _claim(pid: int, started: str) -> str:
    return json.dumps(
        {"pid": pid, "host": platform.node(), "started": started, "time": time.time()}
    )


def _started(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat")
    return stat.read_text().rpartition(")")[2].split()[19] if stat.exists() else ""
