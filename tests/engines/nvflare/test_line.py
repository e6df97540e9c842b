"""Calls through FLARE's proxies, which are stood in for: what becomes of them on an error."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from fedcox.engines.nvflare.line import CollabLine, Silence

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
        CollabLine(sites).call(dict.fromkeys(sites, b""), 5.0, fail_at_the_first)
    assert sites["b"].done
    assert heard == ["a", "b"]
