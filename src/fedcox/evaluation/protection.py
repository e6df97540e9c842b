"""What stands between patients and whoever sees sums, and a study run under each of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import StudyError
from fedcox.federation.center import Center
from fedcox.federation.query import Federation
from fedcox.study.noised_fit import noised
from fedcox.study.study import Study

#: Fewer centers than this cannot sum in secret.
FEWEST_CENTERS = 3


class Protection(Enum):
    """Exact sums of every center or under masks; noise by each center, or once under masks."""

    EXACT = "exact sums"
    MASKED = "exact secure sums"
    NOISE = "noise at each hospital"
    MASKED_NOISE = "secure sums and noise"

    @property
    def masked(self) -> bool:
        """Whether only sums over centers are seen."""
        return self in (Protection.MASKED, Protection.MASKED_NOISE)

    @property
    def noised(self) -> bool:
        return self in (Protection.NOISE, Protection.MASKED_NOISE)


def protected(study: Study, protection: Protection, patients: int) -> Study:
    """The study as it would be run under a protection.

    Where it names no noise, that is the usual noise between hospitals, for so many patients.
    A study that cannot be run so is refused.
    """
    tables = study.to_dict()
    privacy: dict[str, Any] = dict(tables.get("privacy", {}))
    noise: Any = "none"
    if protection.noised:
        named = privacy.get("noise", "none")
        noise = {"patients": patients} if named == "none" else named
    privacy |= {"secure_sums": protection.masked, "noise": noise}
    return Study.from_dict({**tables, "privacy": privacy})


def left_out(study: Study, centers: int) -> dict[Protection, str]:
    """Protections that the study cannot have, with the reason."""
    reasons: dict[Protection, str] = {}
    for protection in Protection:
        if protection.masked and centers < FEWEST_CENTERS:
            reasons[protection] = f"secure sums need {FEWEST_CENTERS} centers, not {centers}"
            continue
        try:
            protected(study, protection, 1)
        except StudyError as error:
            reasons[protection] = " ".join(error.faults)
    return reasons


def begin(study: Study, centers: Sequence[Center], protection: Protection) -> Federation:
    """Centers that have answered nothing yet; `study` is protected already."""
    fresh = [replace(center, gate=None, noise=None) for center in centers]
    federation = InProcess(fresh, apart=True)
    if protection.noised:
        federation = noised(study, federation)
    return Masked.around(federation, study=study.name) if protection.masked else federation
