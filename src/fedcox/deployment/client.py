"""A center's connection to the coordinator: one process that waits for studies."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from fedcox.deployment import processes
from fedcox.deployment.authority import ORGANISATION
from fedcox.deployment.connection import Credentials, why_not_reached
from fedcox.deployment.flare import flare_module
from fedcox.errors import DeploymentError

if TYPE_CHECKING:
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.deployment.hospital_desk import CenterSettings

_MODULE = "fedcox.deployment.guarded_client"
_JOB = "fedcox.deployment.guarded_job"
#: Seconds between looks at whether the server is still there, and until it is given up.
_LOOK = 30.0
_FORGOTTEN = 900.0
#: Seconds between two signs of life; `jobs` reads from them who is connected.
SIGN_OF_LIFE = 4


def run(
    folder: CenterFolder, settings: CenterSettings | None = None
) -> subprocess.Popen[bytes]:
    """Start it as a child of this process; it ends when this process does, however that ends.

    `stop` ends it in order, the processes of its jobs included. Its jobs find the `settings`;
    those of a center that runs already are not touched.
    """
    with processes.alone(folder.path):
        check_alone(folder)
        if settings is not None:
            settings.write(folder.settings)
        folder.write_rules()
        # What a crash left behind would answer beside the new process.
        processes.end(folder.flare)
        process = processes.start(
            [
                _MODULE,
                "-m",
                str(folder.flare.resolve()),
                "-s",
                "fed_client.json",
                *_set(folder),
            ],
            workspace=folder.flare,
            log=folder.log,
            tied=True,
        )
        processes.record(folder.running, process.pid)
    return process


def stop(folder: CenterFolder) -> None:
    """End the connection and every job of it; nothing happens where none runs."""
    processes.end(folder.flare)
    folder.running.unlink(missing_ok=True)


def running(folder: CenterFolder) -> processes.Running | None:
    """The process that holds the connection, if it runs."""
    return processes.recorded(folder.running)


def why_not_connected(folder: CenterFolder) -> str | None:
    """None where the coordinator's server answers; else why nobody does, for now.

    A certificate that does not fit is a DeploymentError.
    """
    credentials = Credentials.of(folder.flare / "startup")
    return why_not_reached(folder.host, folder.port, credentials)


class ForgottenJobs:
    """Ends processes of jobs whose server does not come back; else they would wait for ever."""

    def __init__(self, folder: CenterFolder) -> None:
        self._folder = folder
        self._look = self._seen = time.monotonic()

    def look(self) -> None:
        """Looks now and then, however often it is called."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + _LOOK
        work = [
            process
            for process in processes.belonging(self._folder.flare)
            if any(word.startswith(_JOB) for word in process.info["cmdline"])
        ]
        if not work or self._server_is_there():
            self._seen = now
        elif now > self._seen + _FORGOTTEN:
            for process in work:
                # It may have ended by itself since it was found.
                with suppress(flare_module("psutil").Error):
                    process.kill()

    def _server_is_there(self) -> bool:
        try:
            return why_not_connected(self._folder) is None
        except DeploymentError:  # other studies may still be answered: no reason to end
            return False


def check_alone(folder: CenterFolder) -> None:
    """Refuse a second process for one center."""
    present = running(folder)
    if present is not None:
        raise DeploymentError(
            f"The center {folder.name} is connected already, by process {present.pid}.",
            ["End that one first (Ctrl-C in its window), or leave it to its work."],
        )


def _set(folder: CenterFolder) -> list[str]:
    return [
        "--set",
        "secure_train=true",
        f"uid={folder.name}",
        f"org={ORGANISATION}",
        "config_folder=config",
        f"heart_beat_interval={SIGN_OF_LIFE}",
    ]
