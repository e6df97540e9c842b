from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
import drills
from drills.faults import DRILLS, QUICK, Log
from drills.federation import DrillError, Federation, Started, rows
from drills.run import main

HOME = Path(drills.__file__).parent


def test_the_stored_run_is_of_every_drill_and_each_held() -> None:
    told = (HOME / "results" / "drills.txt").read_text()
    assert "FAILED" not in told
    for drill in DRILLS:
        _, heading, last = told.rpartition(f"\n{drill.__name__}: {drill.__doc__}\n")
        assert heading
        # What does not hold, or does not come to its end, ends in other words.
        lines = last.partition("\n\n")[0].splitlines()
        assert re.match(r" +[0-9.]+ s  holds: ", lines[-1]), drill.__name__


def test_every_drill_is_explained() -> None:
    page = (HOME / "README.md").read_text()
    assert all(f"| `{drill.__name__}` |" in page for drill in DRILLS)
    assert set(QUICK) <= set(DRILLS)


def test_what_does_not_hold_stops_the_drill_and_is_written_down() -> None:
    told: list[str] = []
    log = Log(told.append)
    log.holds("one is one", True)
    with pytest.raises(DrillError, match="one is two"):
        log.holds("one is two", False)
    assert [line[11:] for line in told] == ["holds: one is one", "FAILED: one is two"]


def started(folder: Path, code: str) -> Started:
    output = folder / "printed.txt"
    with output.open("wb") as stream:
        return Started(subprocess.Popen([sys.executable, "-c", code], stdout=stream), output)


def test_what_a_command_says_that_ends_otherwise_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    log = Log(told.append)
    log.ends("it ends", started(tmp_path, "raise SystemExit(2)"), 2)
    with pytest.raises(DrillError, match=r"it ends\nIts exit status is 3, .*\nno patients"):
        log.ends("it ends", started(tmp_path, "print('no patients'); raise SystemExit(3)"), 0)


def test_nobody_waits_for_a_command_that_has_ended(tmp_path: Path) -> None:
    gone = started(tmp_path, "print('C is lost')")
    with pytest.raises(DrillError, match="status 0 before 4 rounds are finished:\nC is lost"):
        gone.until("4 rounds are finished", lambda: False)
    assert gone.until("it is there", lambda: "it") == "it"


def test_a_round_lasts_longer_where_commands_do(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    assert federation.short == 30.0
    federation._slowest = 20.3
    assert federation.short == 41.0


def test_a_drill_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["earthquake"])
    assert "there is no drill earthquake; there are center_killed" in capsys.readouterr().err


def test_a_table_of_a_study_is_put_in_place_of_the_one_there(tmp_path: Path) -> None:
    (tmp_path / "patients").mkdir()
    (tmp_path / "patients" / "study.toml").write_text(
        '[study]\nname = "simulated hospitals"\n\n[solver]\nmethod = "newton"\n\n'
        "[grid]\nwidth = 1\n"
    )
    study = Federation(tmp_path).study(
        "mine", grid="width = 2", solver='method = "adam"', attendance="needed = 2"
    )
    assert study.file.read_text() == (
        '[study]\nname = "mine"\n\n[grid]\nwidth = 2\n\n[privacy.noise]\npatients = 600\n\n'
        '[solver]\nmethod = "adam"\n\n[attendance]\nneeded = 2\n'
    )


def test_of_a_file_that_grows_only_whole_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    assert rows(file) == []
    file.write_text('{"kind": "code"}\n{"kind": "exch')
    assert rows(file) == [{"kind": "code"}]
