"""May this study be answered one more question? A hospital's policy, and a count."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING

from fedcox.errors import RefusedError

if TYPE_CHECKING:
    from fedcox.privacy.policy import Policy
    from fedcox.privacy.study_memory import StudyMemory


class Gate:
    """Stands between one study and one hospital's patients, from its first question on.

    It counts what it lets through. Nothing sets the count back; a new study has a new gate,
    which the hospital makes and not the coordinator. With a `memory` a restart does not set it
    back either.
    """

    def __init__(self, policy: Policy, memory: StudyMemory | None = None) -> None:
        self.policy = policy
        self._memory = memory
        self._answered = 0 if memory is None else memory.now.answered
        self._lock = RLock()  # two questions at once must not both be the last one

    def admit(self, question: str, *, noised: bool) -> None:
        """Count the question as answered, or raise every rule that it breaks."""
        with self._lock:
            faults = self.policy.faults(
                questions=[question], noised=noised, rounds=self._answered + 1
            )
            if faults:
                raise RefusedError(
                    f"The hospital's policy refuses the question '{question}'.", faults
                )
            # On the disk first, where there is a memory: then the reply may leave.
            if self._memory is not None:
                self._memory.keep(answered=self._answered + 1)
            self._answered += 1
