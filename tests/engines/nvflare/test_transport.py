"""Calls through FLARE's proxies, which are stood in for: what becomes of them on an error."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from fedcox.engines.nvflare.transport import CollabTransport, Silence
from fedcox.errors import DeploymentError

pytest.importorskip("nvflare")


@dataclass
class Proxy:
    """Stands in for a site of FLARE, which exists within a job alone."""

    seconds: float
    done: bool = False

    def __call__(self, timeout: float) -> Proxy:
        return self

    def handle(self, message: bytes) -> bytes:
        time.sleep(self.seconds)
        self.done = True
        return message


def test_an_error_is_told_when_no_center_is_being_asked_any_more() -> None:
    sites = {"a": Proxy(0.0), "b": Proxy(0.3)}
    heard: list[str] = []

    def fail_at_the_first(name: str, answer: bytes | Silence) -> None:
        heard.append(name)
        if name == "a":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CollabTransport(sites).call(dict.fromkeys(sites, b""), 5.0, fail_at_the_first)
    assert sites["b"].done
    assert heard == ["a", "b"]


@dataclass
class Ended(Proxy):
    """The call of one whose process is ended, as FLARE tells it."""

    def handle(self, message: bytes) -> bytes:
        from nvflare.collab.api.exceptions import CollabCallError

        raise CollabCallError("site", "handle", TimeoutError("ended"))


def test_who_is_silent_because_the_run_was_stopped_is_not_lost() -> None:
    stopped, heard = list[bool](), dict[str, bytes | Silence]()
    line = CollabTransport({"a": Proxy(0.0), "b": Ended(0.0)}, stopped=lambda: bool(stopped))
    line.call({"a": b"1", "b": b"1"}, 5.0, heard.__setitem__)
    assert heard == {
        "a": b"1",
        "b": Silence("the connection to it broke, or its process ended"),
    }
    stopped.append(True)
    with pytest.raises(DeploymentError, match="The run was stopped"):
        line.call({"a": b"1", "b": b"1"}, 5.0, heard.__setitem__)
    line.call({"a": b"2"}, 5.0, heard.__setitem__)  # all answered: nothing is amiss
    assert heard["a"] == b"2"


def test_a_center_whose_process_did_not_start_is_silent_and_says_why() -> None:
    heard: dict[str, bytes | Silence] = {}
    line = CollabTransport({"a": Proxy(0.0), "b": None})
    assert line.names == ("a", "b")
    line.call({"a": b"1", "b": b"1"}, 5.0, heard.__setitem__)
    assert heard == {"a": b"1", "b": Silence("its process for the study did not start")}
