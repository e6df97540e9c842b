"""Does every hospital take part? Asked before the first question, until all have said.

A center that cannot take part is left out by name, with the reason it gave.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from fedcox.deployment.run_folder import RunFolder
from fedcox.deployment.study_code import schema_digest
from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.messages import PROTOCOL, Refusal, table, texts
from fedcox.engines.nvflare.switchboard import Switchboard
from fedcox.errors import InputError, MessageError
from fedcox.study.study import Study

#: A center that refuses for one of these may say yes later.
_LATER = frozenset({"waiting", "busy"})
#: Patients of one center. Who says more would push the others' numbers out of what they accept.
_MOST = 10**9


@dataclass(frozen=True)
class Joined:
    """A center that takes part, and how many patients it has.

    Under masks or noise nobody learns that. A center whose patients are others than in
    an earlier job of the run has another `mark`.
    """

    patients: int | None
    mark: str


class Waiting:
    """For how many seconds, and after which pauses, centers are asked again."""

    def __init__(self, run: RunFolder, wait: float, pause: float) -> None:
        self._run, self._pause = run, pause
        self._end = time.monotonic() + wait

    def over(self, reasons: Mapping[str, str]) -> bool:
        """Say who is waited for, and wait; or say that it was long enough."""
        if time.monotonic() > self._end:
            return True
        self._run.tell("waiting", reasons=dict(reasons))
        time.sleep(self._pause)
        return False

    def go_on_without(self, reasons: Mapping[str, str]) -> None:
        """Say who takes no part, and why."""
        self._run.tell("without", reasons=dict(reasons))


def identities(run: RunFolder, board: Switchboard, waiting: Waiting) -> dict[str, str]:
    """The centers' public identities; of one that is away now, as it was known before."""
    from fedcox.privacy.identity import PublicIdentity

    def read(_: str, told: Tree) -> str:
        text = texts(table(told, "fedcox", "identity"))["identity"]
        try:
            # As everybody writes it: a center cannot change the study's code for the others.
            return PublicIdentity.from_text(text).to_text()
        except InputError as error:
            raise MessageError("It does not say who it is.") from error

    asked = board.names
    known = run.identities() | board.ask("hello", dict.fromkeys(asked, None), read)
    silent = {name: board.lost[name] for name in asked if name not in board.names}
    if silent:
        waiting.go_on_without(silent)
    run.keep_identities(known)
    return known


def invite(
    study: Study,
    board: Switchboard,
    centers: Sequence[str],
    known: Mapping[str, str],
    waiting: Waiting,
) -> dict[str, Joined]:
    """Those that take part; the switchboard knows the others no more."""
    body: Tree = {
        "protocol": PROTOCOL,
        "version": version("fedcox"),
        "study": study.to_toml(),
        "centers": list(centers),
        "identities": dict(known),
    }
    expected = schema_digest(study)

    def read(_: str, told: Tree) -> Joined:
        return _joined(told, expected)

    joined: dict[str, Joined] = {}
    undecided = board.names
    while undecided:
        found, refused = board.try_once("study", dict.fromkeys(undecided, body), read)
        joined |= found
        later = {name: _words(each) for name, each in refused.items() if _may_change(each)}
        if later and waiting.over(later):
            later = {}
        others = {name: _words(refused[name]) for name in refused if name not in later}
        for name, reason in others.items():
            board.drop(name, reason)
        board.check_number()
        if others:
            waiting.go_on_without(others)
        undecided = tuple(later)
    return joined


def _joined(told: Tree, expected: bytes) -> Joined:
    answer = table(told, "schema", "mark", "patients")
    schema, patients = answer["schema"], answer["patients"]
    if not isinstance(schema, bytes) or schema != expected:
        raise MessageError("It reads the study's columns in another way.")
    if patients is not None and (type(patients) is not int or not 0 <= patients <= _MOST):
        raise MessageError("It does not say how many patients it has.")
    if not isinstance(answer["mark"], str):
        raise MessageError("It does not say which patients it answers about.")
    return Joined(patients, answer["mark"])


def _may_change(reason: str | Refusal) -> bool:
    return isinstance(reason, Refusal) and reason.reason in _LATER


def _words(reason: str | Refusal) -> str:
    return reason.words if isinstance(reason, Refusal) else reason
