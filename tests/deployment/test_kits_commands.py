from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedcox.cli.center import join
from fedcox.cli.coordinator import add_center, init, renew
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.errors import DeploymentError
from fedcox.privacy.identity import Identity

PASSWORD = re.compile(r"\b(?:[a-z0-9]{4}-){4}[a-z0-9]{4}\b")


def shown_passwords(text: str) -> list[str]:
    return PASSWORD.findall(text)


def write(place: Path, password: str) -> Path:
    place.write_text(password + "\n")
    return place


def test_from_init_to_join_and_on_to_a_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    init(name="lung", host="127.0.0.1", center=["A", "B"], port=18103, days=365)
    text = capsys.readouterr().out
    first, _ = shown_passwords(text)
    end = (datetime.now(UTC) + timedelta(days=365)).date()
    assert f"ends on {end}" in text
    assert "fedcox coordinator start" in text
    assert "firewall" not in text  # on loopback nobody else can connect

    join(Path("coordinator/kits/A.kit"), password_file=write(tmp_path / "word", first))
    text = capsys.readouterr().out
    center = CenterFolder.read("center")
    fingerprint = Identity.load(center.identity).public.fingerprint
    assert fingerprint in text
    assert "127.0.0.1:18103" in text
    assert str(end) in text

    add_center(["C"])
    (further,) = shown_passwords(capsys.readouterr().out)
    join(Path("coordinator/kits/C.kit"), Path("c"), write(tmp_path / "word", further))
    assert CenterFolder.read("c").name == "C"
    assert "--folder c" in capsys.readouterr().out

    renew(days=1000)
    again = shown_passwords(capsys.readouterr().out)
    assert len(set(again)) == 3
    assert CoordinatorFolder.read("coordinator").days_left(datetime.now(UTC)) == 999
    kit, word = Path("coordinator/kits/A.kit"), write(tmp_path / "word", again[0])
    with pytest.raises(DeploymentError, match="--renew"):
        join(kit, password_file=word)
    join(kit, password_file=word, renew=True)
    assert fingerprint in capsys.readouterr().out
    assert CenterFolder.read("center").days_left(datetime.now(UTC)) == 999


def test_an_init_with_faults_makes_nothing_and_tells_all(tmp_path: Path) -> None:
    place = tmp_path / "coordinator"
    with pytest.raises(DeploymentError) as caught:
        init(name="a b", host="::1", center=["x y"], port=0, days=0, folder=place)
    assert len(caught.value.faults) == 5
    assert not place.exists()


def test_a_password_is_asked_for_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    import typer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: dict[str, object] = {}

    def prompt(text: str, **how: object) -> str:
        asked.update(how, text=text)
        return "wrong"

    monkeypatch.setattr(typer, "prompt", prompt)
    kit = tmp_path / "A.kit"
    kit.write_bytes(b"something else")
    with pytest.raises(DeploymentError, match="not a start-up kit"):
        join(kit, tmp_path / "center")
    assert asked == {"text": "Password of A.kit", "hide_input": True}


def test_a_password_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="password file"):
        join(tmp_path / "A.kit", tmp_path / "center", tmp_path / "nowhere")


def test_without_a_terminal_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    from io import StringIO

    monkeypatch.setattr(sys, "stdin", StringIO("abcd\n"))
    with pytest.raises(DeploymentError, match="--password-file"):
        join(tmp_path / "A.kit", tmp_path / "center")
