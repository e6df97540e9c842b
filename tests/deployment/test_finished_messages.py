from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

from fedcox.deployment.study_job import Later, forget_in_one_thread

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
