"""The coordinator's server: the one process that listens; the centers connect to it."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedcox.deployment import processes
from fedcox.deployment.certificates import ORGANISATION
from fedcox.deployment.connection import CredentialFiles, why_not_reached
from fedcox.deployment.kit import is_loopback
from fedcox.deployment.runs import RunFolder
from fedcox.errors import DeploymentError

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

_MODULE = "nvflare.private.fed.app.server.server_train"
#: Seconds until it must listen.
_PATIENCE = 60.0


def start(folder: CoordinatorFolder) -> int:
    """Start it in the background, and give its process number once it listens."""
    with processes.alone(folder.path):
        _check_alone(folder)
        folder.check_certificate(datetime.now(UTC))
        # Job processes of a server that crashed.
        processes.end(folder.server)
        _check_port(folder)
        # Jobs that it had not ended would begin again by themselves.
        shutil.rmtree(folder.store, ignore_errors=True)
        folder.write_rules()
        process = processes.start(
            [_MODULE, "-m", str(folder.server.resolve()), "-s", "fed_server.json", *_SET],
            workspace=folder.server,
            log=folder.log,
        )
        processes.record(folder.running, process.pid)
        # Should it end while this process lives, somebody must have waited for it.
        threading.Thread(target=process.wait, daemon=True).start()
        try:
            _wait_until_it_listens(folder, process)
        except BaseException:
            stop_processes(folder)
            raise
    return process.pid


def stop(folder: CoordinatorFolder) -> bool:
    """End it, after the jobs that run; False where none ran."""
    from fedcox.deployment import jobs

    ran = running(folder) is not None
    if ran:
        # Centers whose job is ended in order need not find out that the server is gone.
        with contextlib.suppress(DeploymentError):
            for path in folder.runs.glob("*/"):
                RunFolder(path).ask_to_stop()
            with jobs.session(folder) as session:
                session.abort_all()
    stop_processes(folder)
    return ran


def stop_processes(folder: CoordinatorFolder) -> None:
    """End every process of the server, whatever it is doing."""
    processes.end(folder.server)
    folder.running.unlink(missing_ok=True)


def running(folder: CoordinatorFolder) -> processes.Running | None:
    """The server's process, if it runs."""
    return processes.recorded(folder.running)


_SET = ("--set", "secure_train=true", f"org={ORGANISATION}", "config_folder=config")


def _check_alone(folder: CoordinatorFolder) -> None:
    present = running(folder)
    if present is not None:
        raise DeploymentError(
            f"The server runs already, as process {present.pid}.",
            ["See who is connected: fedcox coordinator status"],
        )


def _here(folder: CoordinatorFolder) -> str:
    """Its address from this machine, where its name may not be known."""
    named = is_loopback(folder.host) and folder.host.lower() != "localhost"
    return folder.host if named else "127.0.0.1"


def _check_port(folder: CoordinatorFolder) -> None:
    """The engine says nothing if it cannot listen, or shares a port with somebody else."""
    host = _here(folder) if is_loopback(folder.host) else ""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        # A connection that ended a minute ago does not make a port taken.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, folder.port))
        except OSError as error:
            raise DeploymentError(
                f"The port {folder.port} of this machine cannot be used: {error.strerror}.",
                [
                    "Another program listens there: end it.",
                    "Or make a new coordinator's folder with another --port, and new kits.",
                ],
            ) from error


def _wait_until_it_listens(folder: CoordinatorFolder, process: subprocess.Popen[bytes]) -> None:
    credentials = CredentialFiles.of(folder.admin / "startup")
    deadline = time.monotonic() + _PATIENCE
    while (why := why_not_reached(_here(folder), folder.port, credentials)) is not None:
        if process.poll() is not None:
            raise DeploymentError(
                "The server ended as soon as it was started.", [f"Its log: {folder.log}"]
            )
        if time.monotonic() > deadline:
            raise DeploymentError(
                f"The server does not listen after {_PATIENCE:g} seconds: {why}.",
                [f"Its log: {folder.log}"],
            )
        time.sleep(processes.GLANCE)
