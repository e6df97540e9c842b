from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedcox.deployment import processes
from fedcox.errors import DeploymentError
from tests.deployment.conftest import wait_until

psutil = pytest.importorskip("psutil")
_SLEEP = "import time; time.sleep(300)"
_DEAF = f"""
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
{_SLEEP}
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as open_:
        yield open_


def _posing(stack: ExitStack, workspace: Path, code: str = _SLEEP) -> subprocess.Popen[bytes]:
    """A process whose command line looks like that of a job in this workspace."""
    words = ["fedcox.deployment.guarded_job", "-m", str(workspace), "-n", "job"]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
    stack.callback(process.communicate)
    stack.callback(process.kill)
    return process


def test_only_the_processes_of_a_workspace_are_found(stack: ExitStack, tmp_path: Path) -> None:
    own = _posing(stack, tmp_path / "a")
    _posing(stack, tmp_path / "ab")
    assert [each.pid for each in processes.belonging(tmp_path / "a")] == [own.pid]
    assert processes.belonging(tmp_path) == []


def test_a_process_that_does_not_listen_is_ended_by_force(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PATIENCE", 0.3)
    deaf, other = _posing(stack, tmp_path / "a", _DEAF), _posing(stack, tmp_path / "b")
    assert deaf.stdout is not None
    deaf.stdout.readline()
    processes.end(tmp_path / "a")
    assert deaf.wait() == -signal.SIGKILL
    assert other.poll() is None


def test_a_number_that_another_process_got_is_not_taken_for_ours(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    assert processes.recorded(file) is None
    processes.record(file, os.getpid())
    assert file.stat().st_mode & 0o777 == 0o600
    running = processes.recorded(file)
    assert running is not None
    assert running.pid == os.getpid()
    file.write_text(json.dumps({"pid": os.getpid(), "started": running.started - 100.0}))
    assert processes.recorded(file) is None
    file.write_text("{")
    assert processes.recorded(file) is None


def test_a_process_that_ended_does_not_run(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    process = _posing(stack, tmp_path)
    processes.record(file, process.pid)
    process.kill()
    wait_until(lambda: processes.recorded(file) is None)  # though nobody has waited for it


def test_a_tied_process_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = f"""
import pathlib, sys, time
from fedcox.deployment import processes
place = pathlib.Path({str(tmp_path)!r})
child = processes.start(["http.server", "--bind", "127.0.0.1", "0"],
                        workspace=place, log=place / "log", tied=True)
print(child.pid, flush=True)
time.sleep(300)
"""
    process = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        wait_until(lambda: b"Serving" in (tmp_path / "log").read_bytes())
        assert _alive(child)
        process.kill()
    wait_until(lambda: not _alive(child))


def test_what_a_process_prints_is_for_its_owner_only(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    processes.start(["this"], workspace=tmp_path, log=log).wait()
    assert "Beautiful is better" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_process_sees_no_engine_settings_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVFLARE_SECURE_LOGGING", "0")
    monkeypatch.setenv("NVFLARE_ALLOW_ADHOC_CONNS", "1")
    (tmp_path / "timeit.py").write_text("print('code of the folder')")
    code = "import os; print({k: v for k, v in os.environ.items() if 'NVFLARE' in k})"
    log = tmp_path / "log"
    processes.start(["timeit", "-n1", "-r1", code], workspace=tmp_path, log=log).wait()
    told = log.read_text()
    assert "code of the folder" not in told
    assert "ADHOC" not in told
    assert "'NVFLARE_SECURE_LOGGING': '1'" in told


def test_what_earlier_jobs_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    job = tmp_path / "5058a212-75e6-4c26-9c69-d5633911ecf0"
    kept = [
        tmp_path / "startup" / "client.crt",
        tmp_path / "local" / "rules",
        tmp_path / "note",
    ]
    for file in [job / "meta.json", tmp_path / "temporary" / "part", *kept]:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    processes.start(["this"], workspace=tmp_path, log=tmp_path / "log").wait()
    assert not job.exists()
    assert list((tmp_path / "temporary").iterdir()) == []
    assert all(file.exists() for file in kept)


def test_two_commands_do_not_start_in_one_folder_at_once(tmp_path: Path) -> None:
    def start() -> None:
        with processes.alone(tmp_path):
            pass

    with processes.alone(tmp_path), pytest.raises(DeploymentError, match="at this moment"):
        start()
    start()


def test_being_asked_to_end_is_like_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), processes.ended_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def _alive(pid: int) -> bool:
    """A process that has ended and was not waited for is not alive."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
