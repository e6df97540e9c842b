from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil")
from fedcox.deployment import client, processes
from fedcox.deployment.center_folder import CenterFolder
from fedcox.errors import DeploymentError


@pytest.fixture
def home(tmp_path: Path) -> CenterFolder:
    folder = CenterFolder(tmp_path, "A", "trial", "127.0.0.1", 8002, date(2030, 1, 1))
    folder.flare.mkdir()
    return folder


@pytest.fixture
def job(home: CenterFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line looks like that of a job of this center."""
    words = ["fedcox.deployment.guarded_job", "-m", str(home.flare), "-n", "job"]
    sleep = "import time; time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", sleep, *words]) as process:
        yield process
        process.kill()


@pytest.fixture
def watch(home: CenterFolder, monkeypatch: pytest.MonkeyPatch) -> client.ForgottenJobs:
    monkeypatch.setattr(client, "_LOOK", 0.0)
    monkeypatch.setattr(client, "_FORGOTTEN", 0.0)
    return client.ForgottenJobs(home)


def test_a_job_whose_server_does_not_come_back_is_ended(
    watch: client.ForgottenJobs,
    job: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "why_not_connected", lambda folder: "nobody listens")
    watch.look()
    assert job.wait() != 0


def test_a_job_whose_server_answers_goes_on(
    watch: client.ForgottenJobs,
    job: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "why_not_connected", lambda folder: None)
    watch.look()
    assert job.poll() is None


def test_a_job_is_not_ended_before_its_server_had_time_to_come_back(
    watch: client.ForgottenJobs,
    job: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_FORGOTTEN", 600.0)
    monkeypatch.setattr(client, "why_not_connected", lambda folder: "nobody listens")
    watch.look()
    assert job.poll() is None


def test_what_else_answers_in_the_servers_place_does_not_end_the_center(
    watch: client.ForgottenJobs,
    job: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strange(folder: CenterFolder) -> str | None:
        raise DeploymentError("What listens there does not speak TLS.")

    monkeypatch.setattr(client, "why_not_connected", strange)
    watch.look()
    assert job.wait() != 0  # counted as a server that does not come back


def test_a_job_that_ends_while_it_is_looked_at_is_no_fault(
    watch: client.ForgottenJobs,
    job: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found_by_true = processes.belonging
    found: list[int] = []

    def ends_meanwhile(workspace: Path) -> list[Any]:
        work = found_by_true(workspace)
        found.extend(process.pid for process in work)
        job.kill()
        job.wait()
        return work

    monkeypatch.setattr(processes, "belonging", ends_meanwhile)
    monkeypatch.setattr(client, "why_not_connected", lambda folder: "nobody listens")
    watch.look()
    assert found == [job.pid]
