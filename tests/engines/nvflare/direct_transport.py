"""A transport without a network: messages go to centers in this process, and may be altered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.center_end import CenterEnd, Invitation, Leaving, OpenStudy
from fedcox.engines.nvflare.coordinator_end import CoordinatorEnd, RemoteFederation, Watch
from fedcox.engines.nvflare.messages import PROTOCOL
from fedcox.engines.nvflare.transport import Heard, Silence
from fedcox.federation.center import Center
from fedcox.study.asked import NOISED
from fedcox.survival.cohort import Cohort

T = TypeVar("T")
#: What becomes of an answer: center, number of the call, the answer.
Tamper = Callable[[str, int, bytes], bytes | Silence]


@dataclass
class DirectTransport:
    """Sites by name."""

    sites: Mapping[str, CenterEnd]
    tamper: Tamper = lambda name, call, answer: answer
    calls: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.sites))

    def call(self, messages: Mapping[str, bytes], timeout: float, heard: Heard) -> None:
        self.calls.append(tuple(messages))
        for name, message in messages.items():
            heard(name, self.tamper(name, len(self.calls), self.sites[name].handle(message)))


@dataclass
class OpenAdmission:
    """Lets every study in, and asks nobody."""

    study: OpenStudy
    left: list[Leaving] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)

    def introduce(self) -> dict[str, str]:
        return {"fedcox": "0", "identity": ""}

    def open(self, invitation: Invitation) -> OpenStudy:
        return self.study

    def check_agreed(self) -> None: ...

    def leaving(self, rows: Sequence[Leaving]) -> None:
        self.left += rows

    def trouble(self, error: Exception) -> None:
        self.troubles.append(error)


#: Everything that studies and tests of engines ask.
ASKED = frozenset(
    name + part
    for name in (
        "covariate sums",
        "covariate scatter",
        "interval counts",
        "longest follow-up",
        "last interval",
        "distinct event times",
        "patients and events",
        "gradient",
        "diagonal",
        "block",
        "hessian",
        "information",
        "local steps",
        "compressed gradient",
        *NOISED,
    )
    for part in ("", " of a batch", " of a batch of cells", " of a sample")
)


def remote_federation(
    cohorts: Mapping[str, Cohort],
    *,
    needed: int = 1,
    tamper: Tamper = lambda name, call, answer: answer,
    watch: Watch = lambda exchange: None,
) -> RemoteFederation:
    """A hub over one site for each cohort, each of which has taken the study."""
    sites = {
        name: CenterEnd(name, OpenAdmission(OpenStudy(Center(name, cohort), ASKED, b"schema")))
        for name, cohort in cohorts.items()
    }
    return federation_over(DirectTransport(sites, tamper), needed=needed, watch=watch)


def federation_over(
    line: DirectTransport, *, needed: int = 1, watch: Watch = lambda exchange: None
) -> RemoteFederation:
    """Invite the sites of a line, and put a hub over them."""
    board = CoordinatorEnd(line, needed=needed, timeout=60.0, watch=watch)
    patients = invite(board, _patients)
    cohorts = [_center(site).cohort for site in line.sites.values()]
    (columns,) = {cohort.columns for cohort in cohorts}
    # Cohorts cut from one table keep its numbers, as they do in one process.
    numbers = np.sort(np.concatenate([cohort.number for cohort in cohorts]))
    through = np.array_equal(numbers, np.arange(numbers.size))
    return RemoteFederation(board, columns, None if through else patients)


def invite(board: CoordinatorEnd, read: Callable[[str, Tree], T]) -> dict[str, T]:
    """Every site of the board is asked to take the study; what each tells of itself."""
    body: Tree = {
        "protocol": PROTOCOL,
        "version": "0",
        "study": "",
        "centers": list(board.names),
        "identities": {},
    }
    return board.ask("study", dict.fromkeys(board.names, body), read)


def _patients(_: str, told: Tree) -> int:
    assert isinstance(told, dict)
    patients = told["patients"]
    assert isinstance(patients, int)
    return patients


def _center(site: CenterEnd) -> Center:
    assert isinstance(site.admission, OpenAdmission)
    return site.admission.study.center
