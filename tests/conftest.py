"""What all tests run in: signals as in a terminal, time for every example, shared processes."""

from __future__ import annotations

import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Ctrl-C is tested on processes; a shell's background jobs, and theirs, would ignore it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """With --dist loadgroup: the tests of a file that makes something once stay together.

    What such a file makes, a federation of live processes or a trained network, would be made
    again in every process that runs one of its tests. The mark `xdist_group` is not enough:
    pytest-xdist 3.8 writes the group into a field of a test that pytest 9.2 no longer reads.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

    class Together(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if _makes_something_once(config.rootpath / file) else nodeid

    return Together(config, log)


@cache
def _makes_something_once(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return any(sign in text for sign in ('scope="module"', "@cache\n", "LiveFederation"))
