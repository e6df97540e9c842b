"""Real processes on loopback: what holds while they run, and who is kept out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare")
from fedcox.cli.coordinator import coordinator
from fedcox.deployment import client, jobs, processes, server
from fedcox.deployment.center_folder import CenterFolder, join
from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.kit import Participants
from fedcox.deployment.runs import begin
from fedcox.errors import CentersMissingError, DeploymentError
from tests.deployment.conftest import NAMES, PATIENCE, LiveFederation, ended, wait_until


def test_a_study_runs_to_its_end_and_leaves_no_process_of_its_own(
    federation: LiveFederation,
) -> None:
    before = federation.pids()
    with jobs.session(federation.home) as line:
        run, state = federation.run(line, federation.named("one study"))
        assert run.failure() is None
        assert state == jobs.JobState("finished")
        assert run.result.is_dir()
        wait_until(lambda: federation.pids() == before)


def test_status_says_who_is_connected(federation: LiveFederation) -> None:
    told = CliRunner().invoke(coordinator, ["status", "--folder", str(federation.home.path)])
    assert told.exit_code == 0
    assert f"127.0.0.1:{federation.home.port}" in told.output
    rows = [line.split() for line in told.output.splitlines() if "yes" in line]
    assert [name for row in rows for name in row if name in NAMES] == list(NAMES)


def test_only_loopback_is_listened_on(federation: LiveFederation) -> None:
    heard = [
        (process.pid, each.laddr.ip)
        for place in [federation.home.server, *(c.flare for c in federation.centers.values())]
        for process in processes.belonging(place)
        for each in process.net_connections(kind="tcp")
        if each.status == "LISTEN"
    ]
    assert heard
    assert {address for _, address in heard} == {"127.0.0.1"}


def test_a_server_that_runs_is_not_started_again(federation: LiveFederation) -> None:
    with pytest.raises(DeploymentError, match="runs already, as process"):
        server.start(federation.home)


def test_a_second_server_on_the_same_port_is_refused_in_words(
    federation: LiveFederation, tmp_path: Path
) -> None:
    other = _other_project(tmp_path, federation.home.port)
    with pytest.raises(DeploymentError, match=f"port {federation.home.port}.*cannot be used"):
        server.start(other)
    assert processes.belonging(other.server) == []
    assert not other.running.exists()


def test_a_center_that_is_connected_is_not_started_again(federation: LiveFederation) -> None:
    with pytest.raises(DeploymentError, match="The center A is connected already"):
        client.run(federation.centers["A"])


def test_a_center_of_another_authority_does_not_get_in(
    federation: LiveFederation, tmp_path: Path
) -> None:
    other = _other_center(tmp_path, federation.home.port, "D")
    with pytest.raises(DeploymentError, match="not the one that this kit was made for"):
        client.why_not_connected(other)
    process = client.run(other)
    try:
        wait_until(lambda: "re-challenge" in other.log.read_text())
        with jobs.session(federation.home) as session:
            assert session.connected() == sorted(NAMES)
    finally:
        client.stop(other)
        process.communicate()


def test_a_stranger_does_not_get_in_under_a_center_s_name(
    federation: LiveFederation, tmp_path: Path
) -> None:
    """He trusts the true server, shows a certificate of his own authority, and is told."""
    stranger = _other_center(tmp_path, federation.home.port, "A")
    true_root = (federation.centers["A"].flare / "startup" / "rootCA.pem").read_bytes()
    (stranger.flare / "startup" / "rootCA.pem").write_bytes(true_root)
    with pytest.raises(DeploymentError, match="does not take our certificate"):
        client.why_not_connected(stranger)


def test_the_server_does_not_answer_in_plain_text(federation: LiveFederation) -> None:
    with socket.create_connection(("127.0.0.1", federation.home.port), 10.0) as line:
        line.sendall(b"GET /f3 HTTP/1.1\r\nHost: fedcox\r\n\r\n")
        line.settimeout(10.0)
        try:
            answer = line.recv(1000)
        except ConnectionResetError:
            answer = b""
    assert not answer.startswith(b"HTTP")


def test_a_job_that_brings_code_is_refused(federation: LiveFederation) -> None:
    files: dict[str, Any] = dict(jobs.job_files("any", NAMES, len(NAMES)))
    files["center/custom/own.py"] = "print('code from outside')"
    state = _brought_by_hand(federation, files)
    assert state.name == "failed"
    assert "could not be started" in state.reason
    assert not _written(federation, "code from outside")


def test_a_job_with_another_class_is_refused(federation: LiveFederation) -> None:
    files: dict[str, Any] = dict(jobs.job_files("any", ["A"], 1))
    place = "center/config/config_fed_client.json"
    text = json.dumps(files[place])
    files[place] = text.replace("fedcox.deployment.center_job.CenterJob", "subprocess.Popen")
    state = _brought_by_hand(federation, files)
    assert state.name == "failed"
    assert _written(federation, "ComponentNotAuthorized")


def test_a_run_that_needs_more_centers_than_are_there_is_refused(
    federation: LiveFederation,
) -> None:
    refused = pytest.raises(CentersMissingError, match="and the run needs 4")
    with jobs.session(federation.home) as session, refused:
        session.submit("any", 4)


def test_a_center_whose_process_is_killed_is_gone_and_comes_back(
    federation: LiveFederation,
) -> None:
    process = federation.started["C"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert client.running(federation.centers["C"]) is None
    federation.wait_for("A", "B")
    federation.start_center("C")
    federation.wait_for(*NAMES)


def test_a_server_that_stops_ends_its_jobs_and_the_centers_come_back_to_it(
    federation: LiveFederation,
) -> None:
    study = federation.named("nobody has approved it")
    run = begin(federation.home, study, "", resume=False, overwrite=False, wait=PATIENCE)
    with jobs.session(federation.home) as session:
        job = session.submit(run.path.name, len(NAMES))
    wait_until(lambda: run.progress.exists() and "waiting" in run.progress.read_text())
    assert server.stop(federation.home)
    assert processes.belonging(federation.home.server) == []
    assert server.running(federation.home) is None
    own = {process.pid for process in federation.started.values()}
    wait_until(lambda: federation.pids() == own)
    server.start(federation.home)
    federation.wait_for(*NAMES)
    with jobs.session(federation.home) as session:
        assert session.state(job).name == "failed"


def _brought_by_hand(federation: LiveFederation, files: dict[str, Any]) -> jobs.JobState:
    """A job as the server's administrator could bring it without `fedcox`."""
    place = federation.folder / "by-hand"
    shutil.rmtree(place, ignore_errors=True)
    for name, content in files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    with jobs.session(federation.home) as line:
        return ended(line, line._api.submit_job(str(place)))


def _written(federation: LiveFederation, words: str) -> bool:
    """Whether a center's own log has these words."""
    return any(words in center.log.read_text() for center in federation.centers.values())


def _other_project(folder: Path, port: int) -> CoordinatorFolder:
    participants = Participants("other", "127.0.0.1", port, ("A", "D"))
    make_folder(folder / "other", participants, days=2, now=datetime.now(UTC))
    return CoordinatorFolder.read(folder / "other")


def _other_center(folder: Path, port: int, name: str) -> CenterFolder:
    now = datetime.now(UTC)
    participants = Participants("other", "127.0.0.1", port, ("A", "D"))
    passwords = make_folder(folder / "other", participants, days=2, now=now)
    kit = folder / "other" / "kits" / f"{name}.kit"
    return join(kit, passwords[name], folder / name, now=now)
