"""How the messages of a secure sum get to the centers and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedcox.privacy.party import Party


class Transport(Protocol):
    """Anything that carries bytes to named centers."""

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """Give each center its message for `Party.handle`; the replies that came in time.

        A center that is missing from the replies has dropped. A center's refusal is raised.
        """
        ...


@dataclass(frozen=True, eq=False)
class DirectTransport:
    """Every party in this process; nobody drops."""

    parties: Mapping[str, Party]

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        return {
            name: self.parties[name].handle(step, message) for name, message in messages.items()
        }
