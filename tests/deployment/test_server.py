from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare")
from fedcox.cli.coordinator import coordinator
from fedcox.deployment import jobs, server
from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.kit import Participants
from fedcox.errors import DeploymentError
from tests.deployment.conftest import free_port


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorFolder:
    """A coordinator's folder whose server does not run."""
    folder = tmp_path_factory.mktemp("server") / "coordinator"
    participants = Participants("trial", "127.0.0.1", free_port(), ("A",))
    make_folder(folder, participants, days=2, now=datetime.now(UTC))
    return CoordinatorFolder.read(folder)


def test_a_port_that_another_program_uses_is_told(home: CoordinatorFolder) -> None:
    with (
        socket.create_server(("127.0.0.1", home.port)),
        pytest.raises(DeploymentError, match=f"port {home.port} of this machine"),
    ):
        server.start(home)
    assert server.running(home) is None


def test_a_server_that_ends_at_once_is_told_and_leaves_nothing(
    home: CoordinatorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MODULE", "this")
    with pytest.raises(DeploymentError, match="ended as soon as it was started"):
        server.start(home)
    assert not home.running.exists()


def test_jobs_need_a_server(home: CoordinatorFolder) -> None:
    with pytest.raises(DeploymentError, match="does not run"), jobs.session(home):
        pass


def test_status_without_a_server_says_how_to_start_it(home: CoordinatorFolder) -> None:
    told = CliRunner().invoke(coordinator, ["status", "--folder", str(home.path)])
    assert told.exit_code == 1
    assert "fedcox coordinator start" in told.output


def test_stop_without_a_server_says_so(home: CoordinatorFolder) -> None:
    told = CliRunner().invoke(coordinator, ["stop", "--folder", str(home.path)])
    assert told.exit_code == 0
    assert "was not running" in told.output


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    told = CliRunner().invoke(coordinator, ["start", "--folder", str(tmp_path)])
    assert isinstance(told.exception, DeploymentError)
