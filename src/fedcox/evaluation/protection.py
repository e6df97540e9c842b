"""What stands between patients and coordinator, and how a study is run under each of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from fedcox.analysis.plan import Plan
from fedcox.analysis.replay import Replay
from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import Privacy
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
    reasons[Protection.NOISE] = "the attacks are for grouped time, and noise for exact time"
    return reasons


def protected(study: Study, protection: Protection) -> Study:
    """The study as it would be run under a protection.

    Secure sums alone means just that: no interval is joined for them.
    """
    own = study.privacy
    privacy = {
        Protection.NONE: Privacy(),
        Protection.LIMITS: own.model_copy(update={"secure_sums": False}),
        Protection.SECURE_SUMS: Privacy(
            secure_sums=True, smallest_group=0, smallest_tail=0, longest=own.longest
        ),
        Protection.BOTH: own.model_copy(update={"secure_sums": True}),
        Protection.NOISE: own,
    }[protection]
    return study.model_copy(update={"privacy": privacy})


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
    hidden = bool(meant.privacy.secure_sums)
    fresh = [
        replace(
            center,
            gate=Gate(_policy(policies[center.name], hidden=hidden))
            if protection.limited
            else None,
            allow_experiments=not protection.limited,
        )
        for center in centers
    ]
    federation = InProcess(fresh)
    if not hidden:
        return federation
    return Masked.around(federation, study=study.name, check=Replay(Plan.of(meant)))


def _policy(policy: Policy, *, hidden: bool) -> Policy:
    """A hospital's policy, with what it says about this protection alone.

    A policy that requires secure sums refuses everything where there are none, for that one
    reason; so the requirement is left out there, to see what the other limits do.
    """
    sums = {"secure_sums": "required" if hidden else "optional"}
    noise = {"required": False}
    return policy.model_copy(
        update={
            "protection": policy.protection.model_copy(update=sums),
            "differential_privacy": policy.differential_privacy.model_copy(update=noise),
        }
    )
