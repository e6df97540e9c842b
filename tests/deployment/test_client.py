from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("psutil")
from fedcox.deployment import client
from fedcox.deployment.center_folder import CenterFolder


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
