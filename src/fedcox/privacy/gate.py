"""May this reply leave? A hospital's policy, and what one study was answered so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcox.errors import RefusedError
from fedcox.privacy.exposure import Known, Request
from fedcox.privacy.limits import (
    Past,
    asks_at_parameters,
    broken,
    covered_by_noise,
)
from fedcox.survival.cohort import FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.policy import Policy

_NOTHING_KNOWN = Known()


class Gate:
    """Stands between one study and one hospital's patients, from its first question on.

    It counts what it admits and what it refuses. Nothing sets the counts back, a new grid or
    scale included; a new study has a new gate, which the hospital makes and not the
    coordinator.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._past = Past()
        self._refusals = 0

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def rounds(self) -> int:
        """Questions with parameters that were admitted."""
        return self._past.rounds

    @property
    def blocks(self) -> int:
        """Time × covariate blocks that were admitted."""
        return self._past.blocks

    def admit(self, request: Request, known: Known = _NOTHING_KNOWN) -> None:
        """Count the reply as given, or raise every broken limit and count the refusal."""
        self.check_patience()
        faults = list(broken(self._policy, request, known, self._past))
        if faults:
            self.refuse()
            raise RefusedError(
                f"The hospital's policy refuses the question '{request.query}'.", faults
            )
        self._past = self._after(request, known)

    def refuse(self) -> None:
        """Count a refusal, whoever found the reason for it."""
        self._refusals += 1

    def check_patience(self) -> None:
        """Raise if so many questions were refused that no more are looked at."""
        most = self._policy.questions.refusals
        if self._refusals >= most:
            raise RefusedError(
                "The hospital's policy refuses all further questions of this study.",
                [f"[questions] refusals: {most:g} were refused, which is the limit."],
            )

    def _after(self, request: Request, known: Known) -> Past:
        past = self._past
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


def _kept(asked: FloatArray | None, before: FloatArray | None) -> FloatArray | None:
    """A copy, since the array may change later; the old place where there is no new one."""
    return before if asked is None or not asked.size else asked.copy()
