"""The tutorial between hospitals, typed into two terminals as it stands there."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

from fedcox.cli.main import app
from fedcox.deployment import client, server
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.engines.in_process import InProcess
from fedcox.study.fit import fit
from fedcox.study.study import Study
from tests.deployment.conftest import free_port
from tests.docs.pages import DOCS, all_pages, page
from tests.docs.two_terminals import Terminal

TUTORIAL = page(DOCS / "tutorial-between-hospitals.md")
DEPLOY = page(DOCS / "how-to-deploy.md")
_CODE = r"[0-9a-f]{4}(?:-[0-9a-f]{4}){7}"
_PASSWORD = r"[a-z0-9]{4}(?:-[a-z0-9]{4}){4}(?!-)"


class Reader:
    """Types the blocks for either terminal in the order in which they stand on the page."""

    def __init__(self, folder: Path) -> None:
        self.one, self.two = Terminal(folder), Terminal(folder)
        self._port, self._code = free_port(), ""
        self._passwords: dict[str, str] = {}
        self._begun = 0

    def read(self) -> None:
        for block in TUTORIAL.blocks:
            if block.remark.startswith("terminal "):
                window = self.one if block.remark.startswith("terminal 1") else self.two
                for line in block.text.splitlines():
                    if not line.startswith("pip "):
                        self._type(window, self._as_here(line), block.remark)

    def _as_here(self, line: str) -> str:
        """What a reader fills in, and a port that is free on this machine."""
        if "center approve" in line:
            shown = self.one.wait_for("Waiting for C:", self._begun)
            self._code = re.findall(_CODE, shown)[0]
        return line.replace("--port 8002", f"--port {self._port}").replace("CODE", self._code)

    def _type(self, window: Terminal, line: str, remark: str) -> None:
        if "until approved" in remark:
            self._begun = window.type(line)
            return
        if line.startswith("fedcox center log"):  # the first terminal goes on by itself
            self.one.wait_for("report.html\n", self._begun)
        if "fedcox center join" in line:
            begin = window.type(line)
            window.wait_for(".kit: ", begin)
            window.answer(self._passwords[line.split()[-1]])
            return
        told = window.command(line)
        if "coordinator init" in line:
            self._passwords = dict(re.findall(rf"│ (\w+) +│.*?│ ({_PASSWORD}) ", told))

    def close(self) -> None:
        self.two.close()
        self.one.close()


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the page was read, and all that was shown."""
    folder = tmp_path_factory.mktemp("reader")
    reader = Reader(folder)
    try:
        reader.read()
    finally:
        reader.close()
        _stop_what_is_left(folder)
    return folder, reader.one.shown + reader.two.shown


def _stop_what_is_left(folder: Path) -> None:
    """After a page that broke off; where it was read to its end there is nothing."""
    if (folder / "coordinator").is_dir():
        server.stop_processes(CoordinatorFolder.read(folder / "coordinator"))
    for name in ("A", "B", "C"):
        if (folder / name).is_dir():
            client.stop(CenterFolder.read(folder / name))


def test_the_commands_between_hospitals_end_in_a_report(typed: tuple[Path, str]) -> None:
    folder, _ = typed
    assert "<html" in (folder / "run" / "report.html").read_text(encoding="utf-8")
    found = json.loads((folder / "run" / "fit.json").read_text(encoding="utf-8"))
    study = Study.read(folder / "study.toml")
    patients = pd.read_csv(folder / "hospitals" / "all.csv")
    exact = Study.from_dict({**study.to_dict(), "privacy": {"noise": "none"}})
    here = fit(exact, InProcess.from_frame(exact, patients, center="hospital"))
    away = [row["coef"] for row in found["coefficients"]] - here.summary["coef"].to_numpy()
    # Noise adds five per cent to a standard error: a third of one to a coefficient.
    assert np.abs(away / here.summary["se(coef)"].to_numpy()).max() < 2.0
    assert found["guarantee"]["masked"] is True


def test_what_the_page_on_deployment_shows_is_shown(typed: tuple[Path, str]) -> None:
    shown = _same_every_time(typed[1])
    blocks = [block for block in DEPLOY.blocks if block.remark == "shown"]
    assert len(blocks) > 5
    for block in blocks:
        wanted = _same_every_time(block.text)
        assert wanted in shown, f"{DEPLOY.name}, line {block.line}"


def test_nothing_that_was_started_is_left(typed: tuple[Path, str]) -> None:
    import psutil

    place = str(typed[0])
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if any(place in word for word in process.info["cmdline"] or [])
    ]
    assert left == []


@pytest.mark.parametrize(
    "line",
    [
        line
        for shown in all_pages()
        for block in shown.blocks
        if block.remark.startswith("terminal")
        for line in block.text.splitlines()
        if line.startswith("fedcox ")
    ],
)
def test_every_command_for_a_terminal_is_one(line: str) -> None:
    words = shlex.split(re.sub(r"\s*[<>&].*$", "", line))[1:]
    command: Any = commands()
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


@cache
def commands() -> Any:
    return typer.main.get_command(app)


def _same_every_time(text: str) -> str:
    """Without what differs from run to run, and without spaces at the ends of lines."""
    for pattern, stands in (
        (_CODE, "CODE"),
        (_PASSWORD, "PASSWORD"),
        (r"[0-9a-f]{4}(?: [0-9a-f]{4}){7}", "KEY"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r"127\.0\.0\.1:\d+", "HERE"),
        (r"Process \d+", "Process"),
        (r"\d+\.\d\d s", "TIME"),
        (r"\S*(?=coordinator/server\.log)", ""),
    ):
        text = re.sub(pattern, stands, text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
