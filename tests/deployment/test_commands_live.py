"""From start-up kits to a report, by the commands alone; and what is killed on the way."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
from drills.faults import FAR, QUICK, Drill, Log
from drills.federation import EXACT, FEDCOX, NAMES, Federation, waited

#: What a fault in fedcox, or in a library below it, might put into an exception.
PLANTED = "Ada Lovelace born 1815"
#: What a hospital's file might hold by mistake.
MISTYPED = "Grace Hopper born 1906"


class Terminal:
    """A command at a terminal, where it may ask."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.screen, other = pty.openpty()
        self.process = subprocess.Popen(
            [*FEDCOX, *words],
            cwd=folder,
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "COLUMNS": "120"},
        )
        os.close(other)
        self.shown = b""
        threading.Thread(target=self._read, daemon=True).start()

    def type(self, answer: str) -> None:
        os.write(self.screen, answer.encode() + b"\n")

    def _read(self) -> None:
        try:
            while part := os.read(self.screen, 4096):
                self.shown += part
        except OSError:  # its command has ended
            return


def test_from_kits_to_a_report_by_the_commands_alone(tmp_path: Path) -> None:
    with Federation(tmp_path / "all of it").running() as federation:
        federation.make(patients=900)
        federation.start_server()
        server = set(federation.pids())
        assert server
        plain = federation.study("plain", **EXACT)
        code = federation.code(plain)

        federation.start_center("A", "--approve", code, "--unseen")
        federation.start_center("B")
        federation.start_center("D", "--approve", code, "--unseen")
        terminal = Terminal(
            federation.folder,
            *("center", "start", "--folder", "center-C"),
            *("--data", str(federation.data("C")), "--policy", "none"),
        )
        run = plain.run("plain-run")
        waited("the study is shown", lambda: b"Approve it?" in terminal.shown)
        columns = b"Columns it reads: time, status, patient, age, sex, stage, marker"
        assert columns in terminal.shown
        assert plain.code() == code
        assert "nobody here has read what it asks" in federation.centers["A"].printed()
        mistyped = code[:-1] + ("0" if code[-1] != "0" else "1")
        options = ["--folder", "center-B"]
        refused = federation.command("center", "approve", mistyped, *options, status=2)
        assert "was shown here" in refused
        federation.command("center", "approve", code, *options)
        terminal.type("y")
        assert run.ended() == 0, run.printed()
        assert "Round 1, covariate sums" in run.printed()
        assert "A, B, C, D answered" in run.printed()
        assert (federation.folder / "plain-run" / "report.html").exists()
        found, expected = plain.result("plain-run"), plain.fitted("plain-fit")
        (warning,) = found.pop("warnings")
        assert warning["name"] == "ExactSumsWarning"  # in one process there is nobody to warn
        assert not expected.pop("warnings")
        assert found == expected
        assert "covariate sums" in federation.command("center", "log", "--folder", "center-C")

        # Ctrl-C ends a center with all of its processes; then once more, with limits.
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(60) == 0
        for name in ("A", "B", "D"):
            federation.stop_center(name)
        waited("only the server is left", lambda: federation.pids() == server)
        for name in NAMES:
            federation.start_center(name, policy="default")
        noised = federation.study("noised", privacy__noise="patients = 900")
        run = noised.run("noised-run")
        code = noised.code()
        for name in NAMES:
            folder = ["--folder", f"center-{name}"]
            waited("the study is shown", partial(shown_at, federation, code, folder), pause=1.0)
            told = federation.command("center", "approve", code, *folder)
            assert "“noised” is approved." in told
        assert run.ended() == 0, run.printed()
        left = [row for name in NAMES for row in noised.left(name)]
        assert {row["protection"] for row in left} == {"masks and noise"}
        found, exact = noised.result("noised-run"), plain.result("plain-run")
        for row, other in zip(found["coefficients"], exact["coefficients"], strict=True):
            assert abs(row["coef"] - other["coef"]) < FAR * other["se"]

        federation.stop_server()
        for name in NAMES:
            federation.stop_center(name)
        assert federation.pids() == set()


def shown_at(federation: Federation, code: str, folder: list[str]) -> bool:
    return code in federation.command("center", "approve", *folder)


@pytest.fixture(scope="module")
def drilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """One for all drills, each of which leaves it to the next as it may be."""
    with Federation(tmp_path_factory.mktemp("drills") / "all").running() as made:
        made.make()
        yield made


@pytest.mark.parametrize("drill", QUICK, ids=lambda drill: drill.__name__)
def test_nothing_is_lost_and_no_number_is_wrong_when(drill: Drill, drilled: Federation) -> None:
    drilled.make_whole()
    told: list[str] = []
    drill(drilled, Log(told.append))
    assert not [line for line in told if "FAILED" in line]


_FAULTY = f"""
import sys
if "fedcox.deployment.guarded_job" in sys.orig_argv:
    from fedcox.deployment.study_admission import StudyAdmission
    from fedcox.federation.center import Center

    def fail(*arguments, **named):
        raise ValueError({PLANTED!r})

    Center.answer = fail
"""
#: A center that cannot even write down what went wrong, so that the engine gets the exception.
_FAULTIER = _FAULTY + "    StudyAdmission.trouble = fail\n"


def test_a_patient_s_value_in_an_exception_reaches_nothing_of_the_coordinator(
    drilled: Federation,
) -> None:
    for name in list(drilled.centers):
        drilled.stop_center(name)
    for name, code in (("B", _FAULTY), ("C", _FAULTIER)):
        place = drilled.folder / f"faulty-{name}"
        place.mkdir()
        (place / "sitecustomize.py").write_text(code)
        path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
        drilled.start_center(name, environment={"PYTHONPATH": path})
    true = drilled.data("A").read_text()
    drilled.data("A").write_text(mistyped(true))
    try:
        drilled.start_center("A")
        drilled.make_whole()
        drilled.wait_for_centers()
        study = drilled.study("planted", attendance="needed = 2\ntimeout = 20", **EXACT)
        run = study.run("planted-run")
        study.approve_everywhere()
        assert run.ended() == 2
    finally:
        drilled.data("A").write_text(true)
        for name in NAMES:
            drilled.stop_center(name)

    assert "A: its file does not fit the study." in run.printed()
    assert "B: something went wrong at the center." in run.printed()
    assert "C: something went wrong at the center." in run.printed()
    for words in (PLANTED, MISTYPED):
        assert words not in run.printed()
        assert holding(drilled.coordinator, words) == []
    assert PLANTED in (drilled.center("B") / "trouble.log").read_text()
    assert "Column 'age'" in (drilled.center("A") / "trouble.log").read_text()


def mistyped(table: str) -> str:
    """The same patients, with a text where one of them has an age."""
    lines = [line.split(",") for line in table.splitlines()]
    lines[5][lines[0].index("age")] = MISTYPED
    return "\n".join(map(",".join, lines)) + "\n"


def holding(folder: Path, words: str) -> list[Path]:
    """The files below a folder that hold these words, those in archives too."""
    found = []
    for file in folder.rglob("*"):
        if not file.is_file():
            continue
        parts = [file.read_bytes()]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                parts += [archive.read(name) for name in archive.namelist()]
        if any(words.encode() in part or words.split()[1].encode() in part for part in parts):
            found.append(file)
    return found


def test_words_are_found_wherever_they_are(tmp_path: Path) -> None:
    """So that finding none means something."""
    (tmp_path / "log").write_text(f"at 08:00 {PLANTED}\n")
    with zipfile.ZipFile(tmp_path / "job.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/error_log.txt", f"{'x' * 1000} {PLANTED}")
    (tmp_path / "other").write_text("nothing")
    assert sorted(file.name for file in holding(tmp_path, PLANTED)) == ["job.zip", "log"]
