"""Centers whose processes do not start; the engine's way of asking them is stood in for.

With real processes: `python -m drills.run center_not_started`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")
from nvflare.apis.impl.controller import Controller
from nvflare.collab.api.app import ClientApp
from nvflare.collab.api.proxy import Proxy
from nvflare.collab.runtime.defs import SETUP_TASK_NAME, SYNC_TASK_NAME

from fedcox.deployment.center_job import CenterJob
from fedcox.deployment.study_job import StudyController, has_started

NAMES = ("A", "B", "C")
Answer = Callable[[StudyController, str], None]


def published() -> dict[str, Any]:
    app = ClientApp(CenterJob())
    app.name = "site"
    told: dict[str, Any] = app.get_collab_interface()
    return told


def syncs(told: object) -> Answer:
    def answer(controller: StudyController, name: str) -> None:
        controller.client_info[name] = SimpleNamespace(publish_interface=told)

    return answer


def is_silent(controller: StudyController, name: str) -> None: ...


def begun(
    monkeypatch: pytest.MonkeyPatch, sync: Mapping[str, Answer], ready: tuple[str, ...]
) -> tuple[StudyController, list[list[str]]]:
    """A controller after both tasks of its start, and who was asked in each."""
    controller = StudyController("study")
    controller.client_info = dict.fromkeys(NAMES)
    controller.client_setup_status = dict.fromkeys(NAMES, False)
    asked: list[list[str]] = []

    def answered(
        self: StudyController, task: Any, _: Any, targets: list[str], number: int, *rest: Any
    ) -> None:
        assert number == len(targets)
        asked.append(targets)
        for name in targets:
            if task.name == SYNC_TASK_NAME:
                sync[name](self, name)
            else:
                self.client_setup_status[name] = name in ready

    monkeypatch.setattr(Controller, "broadcast_and_wait", answered)
    for task in (SYNC_TASK_NAME, SETUP_TASK_NAME):
        controller.broadcast_and_wait(SimpleNamespace(name=task), None)
    return controller, asked


def started(controller: StudyController) -> list[str]:
    """As the study's job finds it by the engine's proxies."""
    found = []
    for name in NAMES:
        told = controller.client_info[name].publish_interface
        parts = {
            key: Proxy(SimpleNamespace(name="server"), key, "", None, part)
            for key, part in told.items()
        }
        whole = Proxy(SimpleNamespace(name="server"), name, "", None, told.get(""))
        whole.children = {key: part for key, part in parts.items() if key}
        if has_started(whole):
            found.append(name)
    return found


def test_all_that_start_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, asked = begun(monkeypatch, dict.fromkeys(NAMES, syncs(published())), NAMES)
    assert asked == [["A", "B", "C"], ["A", "B", "C"]]
    assert started(controller) == ["A", "B", "C"]


@pytest.mark.parametrize(
    "sync",
    [
        is_silent,
        syncs({}),
        syncs({"": {}}),
        syncs(None),
        syncs("handle"),
        syncs({"": "handle"}),
    ],
)
def test_one_that_does_not_start_is_left_out_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, sync: Answer
) -> None:
    answers = {**dict.fromkeys(NAMES, syncs(published())), "B": sync}
    controller, asked = begun(monkeypatch, answers, NAMES)
    assert asked == [["A", "B", "C"], ["A", "C"]]
    assert started(controller) == ["A", "C"]
    # By these the engine decides whether to end the study.
    assert all(controller.client_info.values())
    assert all(controller.client_setup_status.values())


def test_one_that_ends_before_it_is_ready_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = dict.fromkeys(NAMES, syncs(published()))
    controller, _ = begun(monkeypatch, answers, ready=("A", "C"))
    assert started(controller) == ["A", "C"]
    assert all(controller.client_setup_status.values())


def test_where_none_starts_nobody_is_asked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, asked = begun(monkeypatch, dict.fromkeys(NAMES, is_silent), NAMES)
    assert asked == [["A", "B", "C"]]
    assert started(controller) == []
