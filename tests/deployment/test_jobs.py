from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.deployment.engine_files import CENTER_CLASSES, SERVER_CLASSES
from fedcox.deployment.jobs import JobState, ServerSession, job_files, read_state


def test_a_job_is_settings_that_name_installed_classes_only() -> None:
    files = job_files("lung-1", ["A", "B"], 2)
    assert set(files) == {
        "meta.json",
        "coordinator/config/config_fed_server.json",
        "center/config/config_fed_client.json",
    }
    at_server = set(_paths(files["coordinator/config/config_fed_server.json"]))
    at_center = set(_paths(files["center/config/config_fed_client.json"]))
    assert at_server == set(SERVER_CLASSES)
    assert at_center == set(CENTER_CLASSES)


def test_a_job_goes_to_the_centers_named_and_needs_as_many_as_said() -> None:
    meta = job_files("lung-1", ["A", "B"], 2)["meta.json"]
    assert meta["deploy_map"] == {"coordinator": ["server"], "center": ["A", "B"]}
    assert meta["min_clients"] == 2


def test_a_center_learns_nothing_but_that_there_is_a_study() -> None:
    sent = json.dumps(
        job_files("a-secret-name", ["A"], 1)["center/config/config_fed_client.json"]
    )
    assert "secret" not in sent


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"status": "SUBMITTED"}, JobState("submitted")),
        ({"status": "DISPATCHED"}, JobState("running")),
        ({"status": "RUNNING"}, JobState("running")),
        ({"status": "FINISHED:COMPLETED"}, JobState("finished")),
        ({"status": "FINISHED:ABORTED"}, JobState("failed", "it was ended")),
        (
            {
                "status": "FINISHED:FAILED_TO_RUN",
                "job_deploy_detail": ["server: OK", "A: OK", "B: not authorized"],
            },
            JobState("failed", "it could not be started; B: not authorized"),
        ),
        ({"status": "NEW"}, JobState("failed", "the engine says NEW")),
    ],
)
def test_how_a_job_stands_is_told_in_words(told: dict[str, Any], state: JobState) -> None:
    assert read_state(told) == state


@dataclass
class Server:
    """Stands in for the coordinator's server, which takes a moment to read a job."""

    together: Barrier = field(default_factory=lambda: Barrier(2, timeout=30))

    def get_connected_client_list(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="A", last_connect_time=time.time())]

    def submit_job(self, place: str) -> str:
        self.together.wait()
        file = Path(place, "coordinator/config/config_fed_server.json")
        run: str = json.loads(file.read_text())["components"][0]["args"]["run"]
        self.together.wait()
        return run


def test_two_runs_that_are_submitted_together_are_two(tmp_path: Path) -> None:
    folder = CoordinatorFolder(
        tmp_path, "x", "localhost", 8002, ("A",), date(2026, 1, 1), date(2099, 1, 1)
    )
    server = Server()
    with ThreadPoolExecutor(2) as commands:
        jobs = commands.map(
            lambda run: ServerSession(folder, server).submit(run, 1), ["lung", "heart"]
        )
    assert list(jobs) == ["lung", "heart"]
    assert not list((folder.admin / "transfer").iterdir())


def _paths(settings: Any) -> list[str]:
    if isinstance(settings, dict):
        own = [settings["path"]] if "path" in settings else []
        return own + [path for value in settings.values() for path in _paths(value)]
    if isinstance(settings, list):
        return [path for value in settings for path in _paths(value)]
    return []
