"""The data manager at the terminal of `fedcox center start`."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from unittest.mock import Mock

import pytest

pytest.importorskip("nvflare")
from fedcox.cli.center import _attend, _CenterTerminal
from fedcox.cli.terminal import Terminal
from fedcox.deployment import client
from fedcox.deployment.approval import Approvals, Request
from fedcox.deployment.center_folder import NO_LIMITS, CenterFolder, CenterSettings
from fedcox.study.simulation import clinical_study

_CODE = "f9d5-d56d"


class _Typed(io.StringIO):
    """What is typed at a terminal; its end is Ctrl-D."""

    def isatty(self) -> bool:
        return True


@dataclass
class _Asked:
    """A center that a study waits at."""

    home: CenterFolder
    shown: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.approvals = Approvals(self.home.pending, self.home.approved)
        study = clinical_study().to_toml() + '\n[privacy]\nnoise = "none"\n'
        self.approvals.ask(Request(_CODE, "lung", study, ("A", "B"), {}, "2030-01-01T00:00"))
        self.console = Terminal(file=self.shown, soft_wrap=True)
        self.watched = _CenterTerminal(self.home, self.approvals, self.console, self.home.path)


@pytest.fixture
def asked(tmp_path: Path) -> _Asked:
    return _Asked(CenterFolder(tmp_path, "A", "trial", "127.0.0.1", 8002, date(2030, 1, 1)))


@pytest.mark.parametrize(("word", "decision"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_study_is_approved_by_yes_alone(
    asked: _Asked, monkeypatch: pytest.MonkeyPatch, word: str, decision: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", _Typed(word))
    asked.watched.look()
    assert asked.approvals.decision(_CODE) is decision


def test_the_end_of_input_leaves_a_study_undecided(
    asked: _Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", _Typed(""))
    asked.watched.look()
    asked.watched.look()
    assert asked.approvals.decision(_CODE) is None
    assert asked.shown.getvalue().count(f"Approve it with: fedcox center approve {_CODE}") == 1


def test_ctrl_c_at_the_question_stops_the_center_in_order(
    asked: _Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, stop = Mock(**{"poll.return_value": None}), Mock()
    monkeypatch.setattr(client, "run", lambda folder, settings: connection)
    monkeypatch.setattr(client, "stop", stop)
    typed = _Typed()
    monkeypatch.setattr(typed, "readline", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr(sys, "stdin", typed)
    settings = CenterSettings("patients.csv", NO_LIMITS)
    _attend(asked.home, settings, asked.watched, asked.console)
    assert asked.shown.getvalue().endswith("Stopped.\n")
    assert asked.approvals.decision(_CODE) is None
    stop.assert_called_once_with(asked.home)
