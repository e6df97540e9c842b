"""What stands between patients and coordinator, and how a study is run under each of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from fedcox.analysis.noised_fit import noised
from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import Differential, NewtonSolver, Privacy, PrivateSolver
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.center import Center
from fedcox.federation.query import Federation
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy

#: Fewer centers than this cannot sum in secret.
FEWEST_CENTERS = 3


class Protection(Enum):
    """Nothing; the hospitals' limits; secure sums; both, as by default; or noise."""

    NONE = "none"
    LIMITS = "limits"
    SECURE_SUMS = "secure sums"
    BOTH = "both"
    NOISE = "differential privacy"

    @property
    def limited(self) -> bool:
        return self in (Protection.LIMITS, Protection.BOTH, Protection.NOISE)


def left_out(study: Study, centers: int) -> dict[Protection, str]:
    """Protections that the study cannot have, with the reason."""
    reasons: dict[Protection, str] = {}
    if centers < FEWEST_CENTERS:
        reason = f"secure sums need {FEWEST_CENTERS} centers and there are {centers}"
        reasons |= dict.fromkeys((Protection.SECURE_SUMS, Protection.BOTH), reason)
    elif study.grid.times is not None:
        reason = "every event time would have to be asked for, and secure sums show none"
        reasons |= dict.fromkeys((Protection.SECURE_SUMS, Protection.BOTH), reason)
    if study.privacy.differential is None:
        reasons[Protection.NOISE] = "the study has no [privacy.differential]"
    return reasons


def protected(study: Study, protection: Protection) -> Study:
    """The study as it would be run under a protection."""
    own = study.privacy
    privacy = {
        Protection.NONE: Privacy(),
        Protection.LIMITS: own.model_copy(update={"secure_sums": False, "differential": None}),
        Protection.SECURE_SUMS: Privacy(secure_sums=True, longest=own.longest),
        Protection.BOTH: own.model_copy(update={"secure_sums": True, "differential": None}),
        Protection.NOISE: own,
    }[protection]
    changes: dict[str, Any] = {"privacy": privacy}
    if privacy.differential is None and isinstance(study.solver, PrivateSolver):
        changes["solver"] = NewtonSolver()  # the same study without noise
    return study.model_copy(update=changes)


def masked(study: Study, protection: Protection) -> bool:
    """Whether only sums over centers are seen."""
    return bool(protected(study, protection).privacy.secure_sums)


def begin(
    study: Study,
    centers: Sequence[Center],
    policies: Mapping[str, Policy],
    protection: Protection,
) -> Federation:
    """Centers that have answered nothing yet.

    Where there are no limits, questions for experiments are answered too.
    """
    meant = protected(study, protection)
    hidden, differential = bool(meant.privacy.secure_sums), meant.privacy.differential
    fresh = [
        replace(
            center,
            gate=Gate(_policy(policies[center.name], differential))
            if protection.limited
            else None,
            allow_experiments=not protection.limited,
        )
        for center in centers
    ]
    federation = InProcess(fresh)
    if differential is not None:
        federation = noised(meant, federation)
    if not hidden:
        return federation
    return Masked.around(federation, study=study.name)


def _policy(policy: Policy, differential: Differential | None) -> Policy:
    """A hospital's policy; the epsilon that the study asks for is taken to be allowed."""
    if differential is None:
        return policy
    allowed = {"epsilon": differential.epsilon, "delta": differential.delta}
    return policy.model_copy(update=allowed)
