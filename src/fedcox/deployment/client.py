"""A center's connection to the coordinator: one process that waits for studies.

Before it starts, certificate, file and policy are looked at, and all faults told at once.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fedcox.deployment import processes
from fedcox.deployment.approval import Approvals, never_shown, read_code
from fedcox.deployment.center_folder import NO_LIMITS, CenterFolder, CenterSettings
from fedcox.deployment.certificates import ORGANISATION
from fedcox.deployment.connection import CredentialFiles, why_not_reached
from fedcox.deployment.extras import flare_module
from fedcox.errors import DeploymentError, InputError
from fedcox.privacy.budget import Budget
from fedcox.study.admission import read_policy

#: Days before a certificate ends, from which on it is time for a new one.
_SOON = 30
_MODULE = "fedcox.deployment.guard"
_JOB = "fedcox.deployment.guarded_job"
#: Seconds between looks at whether the server is still there, and until it is given up.
_LOOK = 30.0
_FORGOTTEN = 900.0
#: Seconds between two signs of life; `jobs` reads from them who is connected.
SIGN_OF_LIFE = 4


def validity(home: CenterFolder) -> str:
    """How long the certificate lasts, and what to do where that is not long."""
    days = home.days_left(datetime.now(UTC))
    words = f"Its certificate is valid until {home.expires}."
    if days > _SOON:
        return words
    return f"{words} That is in {days} days: ask the coordinator for a new kit."


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

    A `budget` that was named once is kept: to forget it would begin the account anew. It takes
    over what this folder's account holds.
    """
    check_alone(home)
    home.check_certificate(datetime.now(UTC))
    faults, approvals = [], Approvals(home.pending, home.approved)
    if not data.is_file():
        faults.append(f"--data {data}: there is no such file.")
    if budget is not None and not budget.parent.is_dir():
        faults.append(f"--budget {budget}: there is no folder {budget.parent}.")
    faults += _policy_faults(policy)
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
    return CenterSettings(str(data.resolve()), file, _account(home, budget))


def _policy_faults(policy: str) -> list[str]:
    try:
        if policy != NO_LIMITS:
            read_policy(policy)
    except InputError as error:
        return [f"--policy: {error.subject}", *error.faults]
    return []


def _account(home: CenterFolder, budget: Path | None) -> str | None:
    """The account that is counted in from now on; what was spent before stays spent."""
    before = CenterSettings.read(home.settings).budget if home.settings.exists() else None
    if budget is None:
        return before
    for account in {str(home.budget), before or str(home.budget)}:
        Budget(budget).take_over(Budget(account))
    return str(budget.resolve())


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


def run(
    folder: CenterFolder, settings: CenterSettings | None = None
) -> subprocess.Popen[bytes]:
    """Start it as a child of this process; it ends when this process does, however that ends.

    `stop` ends it in order, the processes of its jobs included. Its jobs find the `settings`;
    those of a center that runs already are not touched.
    """
    with processes.alone(folder.path):
        check_alone(folder)
        if settings is not None:
            settings.write(folder.settings)
        folder.write_rules()
        # What a crash left behind would answer beside the new process.
        processes.end(folder.flare)
        process = processes.start(
            [
                _MODULE,
                "-m",
                str(folder.flare.resolve()),
                "-s",
                "fed_client.json",
                *_set(folder),
            ],
            workspace=folder.flare,
            log=folder.log,
            tied=True,
        )
        processes.record(folder.running, process.pid)
    return process


def stop(folder: CenterFolder) -> None:
    """End the connection and every job of it; nothing happens where none runs."""
    processes.end(folder.flare)
    folder.running.unlink(missing_ok=True)


def running(folder: CenterFolder) -> processes.Running | None:
    """The process that holds the connection, if it runs."""
    return processes.recorded(folder.running)


def why_not_connected(folder: CenterFolder) -> str | None:
    """None where the coordinator's server answers; else why nobody does, for now.

    A certificate that does not fit is a DeploymentError.
    """
    credentials = CredentialFiles.of(folder.flare / "startup")
    return why_not_reached(folder.host, folder.port, credentials)


class ForgottenJobs:
    """Ends processes of jobs whose server does not come back; else they would wait for ever."""

    def __init__(self, folder: CenterFolder) -> None:
        self._folder = folder
        self._look = self._seen = time.monotonic()

    def look(self) -> None:
        """Looks now and then, however often it is called."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + _LOOK
        work = [
            process
            for process in processes.belonging(self._folder.flare)
            if any(word.startswith(_JOB) for word in process.info["cmdline"])
        ]
        if not work or self._server_is_there():
            self._seen = now
        elif now > self._seen + _FORGOTTEN:
            for process in work:
                # It may have ended by itself since it was found.
                with suppress(flare_module("psutil").Error):
                    process.kill()

    def _server_is_there(self) -> bool:
        try:
            return why_not_connected(self._folder) is None
        except DeploymentError:  # other studies may still be answered: no reason to end
            return False


def check_alone(folder: CenterFolder) -> None:
    """Refuse a second process for one center."""
    present = running(folder)
    if present is not None:
        raise DeploymentError(
            f"The center {folder.name} is connected already, by process {present.pid}.",
            ["End that one first (Ctrl-C in its window), or leave it to its work."],
        )


def _set(folder: CenterFolder) -> list[str]:
    return [
        "--set",
        "secure_train=true",
        f"uid={folder.name}",
        f"org={ORGANISATION}",
        "config_folder=config",
        f"heart_beat_interval={SIGN_OF_LIFE}",
    ]
