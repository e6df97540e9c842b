"""What the coordinator asks of its own server: who is connected, and to run a study.

A job is a few lines of JSON that name classes which every machine has installed already; no
code travels.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedcox.deployment import server
from fedcox.deployment.certificates import COORDINATOR_USER
from fedcox.deployment.client import SIGN_OF_LIFE
from fedcox.deployment.extras import flare_module
from fedcox.errors import CentersMissingError, DeploymentError

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

#: Who was silent for longer is not connected: two signs of life and a half.
_SILENT = 2.5 * SIGN_OF_LIFE
_LOGIN = 15.0
_COMMAND = 20.0
#: Seconds between two questions of a job's process for work of the engine's own, at its start.
_POLL = 0.5
#: Seconds after which a center whose process of the job has ended counts as gone.
_GONE = 5.0
#: Seconds for a center's job process to start and to tell what it can do.
_START = 120


@dataclass(frozen=True)
class JobState:
    """How a job stands and why, as the engine knows it; a run's own folder knows better."""

    name: Literal["submitted", "running", "finished", "failed"]
    reason: str = ""


@contextmanager
def session(folder: CoordinatorFolder) -> Iterator[ServerSession]:
    """One line to the server for several questions; opening it takes about a second."""
    if server.running(folder) is None:
        raise DeploymentError(
            "The coordinator's server does not run.",
            ["Start it: fedcox coordinator start"],
        )
    with _quiet():
        api = _opened(folder)
    try:
        yield ServerSession(folder, api)
    finally:
        with _quiet(), contextlib.suppress(Exception):
            api.close()


class ServerSession:
    """An open line to the coordinator's own server."""

    def __init__(self, folder: CoordinatorFolder, api: Any) -> None:
        self._folder, self._api = folder, api

    def connected(self) -> list[str]:
        """The centers that gave a sign of life in the last seconds."""
        with _asked():
            heard = self._api.get_connected_client_list()
        now = time.time()
        return sorted(
            each.name for each in heard if now - float(each.last_connect_time) < _SILENT
        )

    def submit(self, run: str, needed: int) -> str:
        """Start a job for a run over the centers that are connected; its number."""
        present = self.connected()
        if len(present) < max(needed, 1):
            raise CentersMissingError(
                f"{len(present)} centers are connected, and the run needs {needed}.",
                [
                    f"{name} is not connected."
                    for name in self._folder.centers
                    if name not in present
                ],
            )
        # One for each run: two may be submitted in the same moment.
        place = self._folder.admin / "transfer" / f"study-{run}"
        shutil.rmtree(place, ignore_errors=True)
        write_job(place, job_files(run, present, needed))
        with _asked():
            job: str = self._api.submit_job(str(place.resolve()))
        shutil.rmtree(place, ignore_errors=True)
        return job

    def abort(self, job: str) -> None:
        """End a job; nothing happens where it has ended."""
        if self.state(job).name in ("submitted", "running"):
            with _asked():
                self._api.abort_job(job)

    def abort_all(self) -> None:
        """End every job that waits or runs."""
        with _asked():
            known = self._api.list_jobs()
        for each in known:
            if _STATES.get(each.get("status", ""), "failed") in ("submitted", "running"):
                with _asked():
                    self._api.abort_job(each["job_id"])

    def state(self, job: str) -> JobState:
        """How a job stands; a server that was started anew knows nothing of earlier ones."""
        unknown = flare_module("nvflare.fuel.flare_api.api_spec").JobNotFound
        with _asked():
            try:
                meta = self._api.get_job_meta(job)
            except unknown:
                meta = {"status": "FINISHED:ABANDONED"}
        return read_state(meta)


def job_files(run: str, centers: Sequence[str], needed: int) -> dict[str, Mapping[str, Any]]:
    """The files of a job, by their place in its folder."""
    return {
        "meta.json": {
            "name": "study",
            "resource_spec": {},
            "min_clients": max(needed, 1),
            "deploy_map": {"coordinator": ["server"], "center": list(centers)},
        },
        "coordinator/config/config_fed_server.json": {
            "format_version": 2,
            "server": {"task_request_interval": _POLL},
            "dead_client_grace_period": _GONE,
            "workflows": [
                {
                    "id": "controller",
                    "path": "fedcox.deployment.study_job.StudyController",
                    "args": {"server_obj_id": "study", "sync_task_timeout": _START},
                }
            ],
            "components": [
                {
                    "id": "study",
                    "path": "fedcox.deployment.study_job.StudyJob",
                    "args": {"run": run},
                }
            ],
        },
        "center/config/config_fed_client.json": {
            "format_version": 2,
            "default_task_fetch_interval": _POLL,
            "executors": [
                {
                    "tasks": ["*"],
                    "executor": {
                        "id": "executor",
                        "path": "nvflare.collab.runtime.executor.CollabExecutor",
                        "args": {"client_obj_id": "center"},
                    },
                }
            ],
            "components": [
                {"id": "center", "path": "fedcox.deployment.center_job.CenterJob", "args": {}}
            ],
        },
    }


def write_job(place: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a job's files below `place`."""
    for name, content in files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


_STATES: Mapping[str, Literal["submitted", "running", "finished", "failed"]] = {
    "SUBMITTED": "submitted",
    "APPROVED": "submitted",
    "DISPATCHED": "running",
    "RUNNING": "running",
    "FINISHED:COMPLETED": "finished",
}
_REASONS = {
    "FINISHED:ABORTED": "it was ended",
    "FINISHED:EXECUTION_EXCEPTION": "a process of it ended with an error",
    "FINISHED:ABNORMAL": "a process of it was lost",
    "FINISHED:CAN_NOT_SCHEDULE": "too few centers were connected",
    "FINISHED:FAILED_TO_RUN": "it could not be started",
    "FINISHED:ABANDONED": "the server was stopped while it ran",
}


def read_state(meta: Mapping[str, Any]) -> JobState:
    """A job's state from what the engine keeps about it."""
    status = str(meta.get("status", ""))
    name = _STATES.get(status, "failed")
    if name == "submitted":
        tries = meta.get("schedule_history") or []
        return JobState(name, str(tries[-1]).partition(": ")[2] if tries else "")
    if name == "failed":
        reasons = [_REASONS.get(status, f"the engine says {status}"), *_refusals(meta)]
        return JobState(name, "; ".join(reasons))
    return JobState(name)


def _refusals(meta: Mapping[str, Any]) -> list[str]:
    """What centers said when the job was brought to them."""
    detail = meta.get("job_deploy_detail") or []
    return [str(line) for line in detail if not str(line).endswith(": OK")]


def _opened(folder: CoordinatorFolder) -> Any:
    api = flare_module("nvflare.fuel.flare_api.flare_api")
    try:
        return api.new_secure_session(
            COORDINATOR_USER,
            str(folder.admin.resolve()),
            timeout=_LOGIN,
            command_timeout=_COMMAND,
            auto_login_max_tries=2,
        )
    except Exception as error:
        raise _no_answer(error) from error


@contextmanager
def _asked() -> Iterator[None]:
    """The engine's exceptions are of many kinds; to the coordinator they are one."""
    with _quiet():
        try:
            yield
        except Exception as error:
            raise _no_answer(error) from error


def _no_answer(error: Exception) -> DeploymentError:
    return DeploymentError(
        "The coordinator's server did not do what it was asked to.",
        [
            f"{type(error).__name__}: {error}",
            "Its log is server.log; to begin anew: fedcox coordinator stop, then start",
        ],
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """The engine prints what it does; here the caller tells it in the caller's words."""
    logging.getLogger("nvflare").addHandler(logging.NullHandler())
    logging.getLogger("nvflare").propagate = False
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        # The engine calls aiohttp as one did some years ago.
        warnings.filterwarnings("ignore", "ssl_context is deprecated", DeprecationWarning)
        yield
