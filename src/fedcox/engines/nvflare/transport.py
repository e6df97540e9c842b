"""Who brings bytes to the centers and back? The part that knows FLARE, and nothing else."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from fedcox.engines.codec.records import declare_all
from fedcox.errors import DeploymentError

#: Objects made before the youngest are looked through: a round makes some thousands, and with
#: Python's own seven hundred every round would wait for it.
_YOUNG = 50_000


@dataclass(frozen=True)
class Silence:
    """A center did not answer, and why as far as that is known."""

    reason: str


#: Told as soon as one center has answered, or will not; of several at the same time.
Heard = Callable[[str, bytes | Silence], None]


class Transport(Protocol):
    """A line to every center that is connected."""

    @property
    def names(self) -> tuple[str, ...]:
        """The centers at the other end."""
        ...

    def call(self, messages: Mapping[str, bytes], timeout: float, heard: Heard) -> None:
        """Give each named center its message, all at once, and wait for each `timeout` s."""
        ...


class CollabTransport:
    """FLARE's Collab API: a call to each site, answered by the site's job process.

    `sites` are the proxies that FLARE hands to the server's job, None for a center whose
    process did not start. Where the job itself is
    `stopped`, the centers' processes end with it, and nobody's silence counts.
    """

    def __init__(
        self, sites: Mapping[str, Any], stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._sites, self._stopped = dict(sites), stopped
        self._threads = ThreadPoolExecutor(max_workers=max(1, len(self._sites)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._sites))

    def call(self, messages: Mapping[str, bytes], timeout: float, heard: Heard) -> None:
        silent: list[str] = []

        def one(name: str) -> None:
            answer = self._one(name, messages[name], timeout)
            if isinstance(answer, Silence):
                silent.append(name)
            heard(name, answer)

        calls = [self._threads.submit(one, name) for name in messages]
        wait(calls)  # all, so that an error leaves no center being asked
        if (silent or any(call.exception() for call in calls)) and self._stopped():
            raise DeploymentError(
                "The run was stopped.", ["Run the study with --resume to go on."]
            )
        for call in calls:
            call.result()

    def _one(self, name: str, message: bytes, timeout: float) -> bytes | Silence:
        from nvflare.collab.api.exceptions import CollabCallError

        site, begun = self._sites[name], time.monotonic()
        if site is None:
            return Silence("its process for the study did not start")
        try:
            reply = site(timeout=timeout).handle(message)
        except CollabCallError as error:
            # What the other side said is not passed on: it may be about its patients. The
            # engine calls it a timeout, too, where a job is ended from outside.
            if error.cause_type == "TimeoutError" and time.monotonic() - begun >= timeout:
                return Silence(f"no answer within {timeout:g} seconds")
            return Silence("the connection to it broke, or its process ended")
        return reply if isinstance(reply, bytes) else Silence("its answer is not one of fedcox")


def make_ready() -> None:
    """Once everything is loaded."""
    declare_all()
    # Else the engine's many objects are looked through in mid-round.
    gc.freeze()
    gc.set_threshold(_YOUNG)
