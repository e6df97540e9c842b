from __future__ import annotations

import numpy as np
import pytest

import fedcox.cli.doctor as doctor
from tests.cli.conftest import Run
from tests.docs.commands_page import COMMANDS


def test_a_sound_installation_is_shown_as_such(fedcox: Run) -> None:
    ended = fedcox("doctor")
    assert ended.status == 0
    assert "equals the pooled fit" in ended.out
    assert np.__version__ in ended.out


def test_a_wrong_number_is_found(fedcox: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for difference in (1e-6, float("nan")):
        monkeypatch.setattr(doctor, "pooled_difference", lambda value=difference: value)
        ended = fedcox("doctor")
        assert ended.status == 1
        assert "differs from the pooled fit" in ended.out


def test_a_missing_package_is_named(fedcox: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_BASE", ("numpy", "no-such-package"))
    ended = fedcox("doctor")
    assert ended.status == 1
    assert "missing: no-such-package" in ended.out


def test_help_lists_every_command(fedcox: Run) -> None:
    ended = fedcox("--help")
    assert ended.status == 0
    for command in COMMANDS:
        assert command.split()[0] in ended.out


def test_the_version_is_told(fedcox: Run) -> None:
    from importlib.metadata import version

    assert fedcox("--version").out.strip() == f"fedcox {version('fedcox')}"
