"""Does a study begin without a center that did not start, and forget messages in one thread?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fedcox.deployment.study_job import Later, forget_in_one_thread

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


_PATIENCE = 20.0


def until(true: Any) -> None:
    end = time.monotonic() + _PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def waiting_threads() -> int:
    """Timers of the engine, and ours."""
    return sum(
        isinstance(thread, threading.Timer) or thread.name == "fedcox_later"
        for thread in threading.enumerate()
    )


def test_each_is_called_in_its_turn() -> None:
    later, called = Later(), list[str]()
    later.after(0.2, lambda: called.append("last"))
    later.after(0.0, lambda: called.append("first"))
    later.after(0.1, lambda: called.append("second"))
    until(lambda: len(called) == 3)
    assert called == ["first", "second", "last"]


def test_none_is_lost_while_others_are_called() -> None:
    later, called = Later(), list[int]()
    for number in range(1000):
        later.after(0.0 if number % 2 else 0.05, partial(called.append, number))
    until(lambda: len(called) == 1000)
    assert sorted(called) == list(range(1000))


def test_one_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    later, called = Later(), list[str]()
    later.after(0.0, lambda: called.append(str(1 / 0)))
    later.after(0.05, lambda: called.append("after it"))
    until(lambda: called == ["after it"])
    assert "could not be forgotten" in caplog.text


def test_one_that_is_far_off_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, called = Later(), list[str]()
    later.after(1e12, lambda: called.append("never"))  # longer than a thread can wait
    time.sleep(0.05)
    later.after(0.0, lambda: called.append("now"))
    until(lambda: called == ["now"])
    assert not caplog.records


def test_the_engine_forgets_a_thousand_messages_in_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver = pytest.importorskip("nvflare.fuel.f3.streaming.byte_receiver").RxTask
    monkeypatch.setattr(receiver, "_schedule_remove_task", receiver._schedule_remove_task)
    # Its own: what other tests of this process received is remembered for a minute.
    monkeypatch.setattr(receiver, "rx_task_map", {})
    before = waiting_threads()
    forget_in_one_thread()
    messages = [receiver(number, "hospital", None) for number in range(1000)]
    for message in messages:
        receiver.rx_task_map[message.origin, message.sid] = message
        message._schedule_remove_task(5.0)
        message._schedule_remove_task(5.0)  # as when a second copy comes
    # Timers of earlier tests may end meanwhile.
    assert waiting_threads() <= before + 1
    assert len(receiver.rx_task_map) == 1000
    until(lambda: not receiver.rx_task_map)


def test_it_waits_as_long_as_the_engine_would(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = pytest.importorskip("nvflare.fuel.f3.streaming.byte_receiver").RxTask
    monkeypatch.setattr(receiver, "_schedule_remove_task", receiver._schedule_remove_task)
    waits: list[float] = []
    monkeypatch.setattr(Later, "after", lambda self, seconds, call: waits.append(seconds))
    forget_in_one_thread()
    message = receiver(1, "hospital", None)
    message._schedule_remove_task()
    assert waits == [message.completed_task_ttl]
    assert waits[0] > 10
