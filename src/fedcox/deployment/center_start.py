"""What is looked at before a center connects: certificate, file, policy; all faults at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.deployment import client
from fedcox.deployment.approval import Approvals, never_shown
from fedcox.deployment.hospital_desk import NO_LIMITS, CenterSettings
from fedcox.deployment.study_code import read_code
from fedcox.errors import DeploymentError, InputError
from fedcox.study.admission import read_policy

#: Days before a certificate ends, from which on it is time for a new one.
_SOON = 30

if TYPE_CHECKING:
    from fedcox.deployment.center_folder import CenterFolder


def validity(home: CenterFolder) -> str:
    """How long the certificate lasts, and what to do where that is not long."""
    days = home.days_left(datetime.now(UTC))
    told = f"Its certificate is valid until {home.expires}."
    if days > _SOON:
        return told
    return f"{told} That is in {days} days: ask the coordinator for a new kit."


def prepare(
    home: CenterFolder,
    data: Path,
    policy: str,
    approved: Sequence[str] = (),
    *,
    unseen: bool = False,
    budget: Path | None = None,
) -> CenterSettings:
    """Check what the center is started with, and give what the processes of its jobs need.

    A `budget` that was named once is kept: to forget it would begin the account anew.
    """
    client.check_alone(home)
    home.check_certificate(datetime.now(UTC))
    faults, approvals = [], Approvals(home.pending, home.approved)
    if not data.is_file():
        faults.append(f"--data {data}: there is no such file.")
    if budget is not None and not budget.parent.is_dir():
        faults.append(f"--budget {budget}: there is no folder {budget.parent}.")
    if policy != NO_LIMITS:
        try:
            read_policy(policy)
        except InputError as error:
            faults += [f"--policy: {error.subject}", *error.faults]
    codes, wrong = _codes(approvals, approved, unseen=unseen)
    faults += wrong
    if faults:
        raise DeploymentError("The center cannot be started like this.", faults)
    # Jobs run in other folders than this command.
    file = policy if policy in (NO_LIMITS, "default") else str(Path(policy).resolve())
    for code in codes:
        if approvals.find(code) is None:
            approve_unseen(home, code)
        else:
            approvals.decide(code, approve=True)
    shared = CenterSettings.read(home.settings).budget if home.settings.exists() else None
    shared = shared if budget is None else str(budget.resolve())
    return CenterSettings(str(data.resolve()), file, shared)


def _codes(
    approvals: Approvals, approved: Sequence[str], *, unseen: bool
) -> tuple[list[str], list[str]]:
    """The codes to approve, and what is wrong with the others."""
    codes, faults = [], []
    for text in approved:
        try:
            code = read_code(text)
            if not unseen and approvals.find(code) is None:
                raise never_shown(code)
            codes.append(code)
        except InputError as error:
            faults.append(f"--approve: {error.subject} {' '.join(error.faults)}")
    return codes, faults


def approve_unseen(home: CenterFolder, code: str) -> str:
    """Approve a study that was not shown here, and say so in the center's log; the words."""
    Approvals(home.pending, home.approved).decide(code, approve=True, unseen=True)
    words = (
        f"The code {code} is approved, and no study of this code was shown here: nobody here "
        "has read what it asks."
    )
    home.note(words)
    return words
