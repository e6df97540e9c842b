"""May this reply leave? A hospital's policy, and what one study was answered so far."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING

from fedcox.errors import RefusedError
from fedcox.privacy.exposure import Known, Request
from fedcox.privacy.limits import (
    Past,
    asks_at_parameters,
    broken,
    covered_by_noise,
)
from fedcox.privacy.remembered import Answered
from fedcox.survival.cohort import FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.policy import Policy
    from fedcox.privacy.study_memory import StudyMemory

_NOTHING_KNOWN = Known()


class Gate:
    """Stands between one study and one hospital's patients, from its first question on.

    It counts what it admits and what it refuses. Nothing sets the counts back, a new grid or
    scale included; a new study has a new gate, which the hospital makes and not the
    coordinator. With a `memory` a restart does not set them back either.
    """

    def __init__(self, policy: Policy, memory: StudyMemory | None = None) -> None:
        self._policy = policy
        self._memory = memory
        self._answered = Answered() if memory is None else memory.now.answered
        self._lock = RLock()  # two questions at once must not both be the last one

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def remembers(self) -> bool:
        """Whether questions that were admitted before are known again."""
        return self._memory is not None

    @property
    def rounds(self) -> int:
        """Questions with parameters that were admitted."""
        return self._answered.past.rounds

    @property
    def blocks(self) -> int:
        """Time × covariate blocks that were admitted."""
        return self._answered.past.blocks

    def admit(
        self, request: Request, known: Known = _NOTHING_KNOWN, question: bytes | None = None
    ) -> None:
        """Count the reply as given, or raise every broken limit and count the refusal.

        `question` is a fingerprint of all that the reply depends on beside the patients. One
        that was admitted before is not counted again, since the reply tells nothing new; but
        it has to meet the limits that do not depend on the past, which may be others today.
        """
        with self._lock:
            self.check_patience()
            again = question in self._answered.admitted
            past = _as_it_was(request, known) if again else self._answered.past
            faults = list(broken(self._policy, request, known, past))
            if faults:
                self.refuse()
                raise RefusedError(
                    f"The hospital's policy refuses the question '{request.query}'.", faults
                )
            if not again:
                self._count(self._after(request, known), question)

    def refuse(self) -> None:
        """Count a refusal, whoever found the reason for it."""
        with self._lock:
            self._keep(replace(self._answered, refusals=self._answered.refusals + 1))

    def first_grid(self, centers: frozenset[str]) -> FloatArray | None:
        """The edges of the grid on which these centers were answered together first."""
        return self._answered.grids.get(centers)

    def answered_on(self, centers: frozenset[str], edges: FloatArray) -> None:
        """Remember the grid of an answer to these centers, if it is the first."""
        with self._lock:
            if centers not in self._answered.grids:
                grids = {**self._answered.grids, centers: edges.copy()}
                self._keep(replace(self._answered, grids=grids))

    def check_patience(self) -> None:
        """Raise if so many questions were refused that no more are looked at."""
        most = self._policy.questions.refusals
        if self._answered.refusals >= most:
            raise RefusedError(
                "The hospital's policy refuses all further questions of this study.",
                [f"[questions] refusals: {most:g} were refused, which is the limit."],
            )

    def _count(self, past: Past, question: bytes | None) -> None:
        admitted = self._answered.admitted
        if self._memory is not None and question is not None:
            admitted |= {question}
        self._keep(replace(self._answered, past=past, admitted=admitted))

    def _keep(self, answered: Answered) -> None:
        """On the disk first, where there is a memory: then the reply may leave."""
        if self._memory is not None:
            self._memory.keep(answered=answered)
        self._answered = answered

    def _after(self, request: Request, known: Known) -> Past:
        past = self._answered.past
        alpha, beta = past.alpha, past.beta
        if not covered_by_noise(self._policy, request):
            # Other parameters were not looked at: they are no place to go on from.
            alpha, beta = _kept(request.alpha, alpha), _kept(request.beta, beta)
        return Past(
            past.rounds + asks_at_parameters(request),
            past.blocks + request.exposure.time_by_covariate,
            alpha,
            beta,
            _kept(known.edges, None) if past.edges is None else past.edges,
        )


def _as_it_was(request: Request, known: Known) -> Past:
    """The past of a question that is asked a second time: it is no step from the first."""
    return Past(0, 0, request.alpha, request.beta, known.edges)


def _kept(asked: FloatArray | None, before: FloatArray | None) -> FloatArray | None:
    """A copy, since the array may change later; the old place where there is no new one."""
    return before if asked is None or not asked.size else asked.copy()
