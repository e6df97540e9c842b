"""One study between hospitals, from the first message to the report.

It runs in the server's job process and talks to the rest by files of the run's folder. Before
the first question every hospital is asked whether it takes part, until all have said; one that
cannot is left out by name, with the reason it gave.
"""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from fedcox.deployment.approval import schema_digest, study_code
from fedcox.deployment.runs import RunFolder
from fedcox.engines.checkpoint import Checkpointed, last_centers
from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.coordinator_end import (
    CoordinatorEnd,
    MessageRound,
    RemoteFederation,
)
from fedcox.engines.nvflare.messages import PROTOCOL, Refusal, table, texts
from fedcox.engines.nvflare.transport import Transport
from fedcox.errors import FedcoxWarning, InputError, MessageError, StudyError
from fedcox.reports.run_folder import write_run
from fedcox.solvers.solver import Step
from fedcox.study.fit import fit
from fedcox.study.noised_fit import spending
from fedcox.study.notices import absent_centers
from fedcox.study.study import Study

if TYPE_CHECKING:
    from fedcox.federation.query import Federation
    from fedcox.privacy.identity import PublicIdentity
    from fedcox.study.fitted import FittedStudy


#: A center that refuses for one of these may say yes later.
_LATER = frozenset({"waiting", "busy"})
#: Patients of one center. Who says more would push the others' numbers out of what they accept.
_MOST = 10**9
#: Seconds for a round, where the study names none.
TIMEOUT = 300.0
#: Seconds that the process of a job that was broken off has to end.
_PATIENCE = 60.0


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


def identities(run: RunFolder, end: CoordinatorEnd, waiting: Waiting) -> dict[str, str]:
    """The centers' public identities; of one that is away now, as it was known before."""
    from fedcox.privacy.identity import PublicIdentity

    def read(_: str, answer: Tree) -> str:
        text = texts(table(answer, "fedcox", "identity"))["identity"]
        try:
            # As everybody writes it: a center cannot change the study's code for the others.
            return PublicIdentity.from_text(text).to_text()
        except InputError as error:
            raise MessageError("It does not say who it is.") from error

    asked = end.names
    known = run.identities() | end.ask("hello", dict.fromkeys(asked, None), read)
    silent = {name: end.lost[name] for name in asked if name not in end.names}
    if silent:
        waiting.go_on_without(silent)
    run.keep_identities(known)
    return known


def invite(
    study: Study,
    end: CoordinatorEnd,
    centers: Sequence[str],
    known: Mapping[str, str],
    waiting: Waiting,
) -> dict[str, Joined]:
    """Those that take part; the coordinator's end knows the others no more."""
    body: Tree = {
        "protocol": PROTOCOL,
        "version": version("fedcox"),
        "study": study.to_toml(),
        "centers": list(centers),
        "identities": dict(known),
    }
    expected = schema_digest(study)

    def read(_: str, answer: Tree) -> Joined:
        return _joined(answer, expected)

    joined: dict[str, Joined] = {}
    undecided = end.names
    while undecided:
        accepted, refused = end.try_once("study", dict.fromkeys(undecided, body), read)
        joined |= accepted
        later = {name: _words(each) for name, each in refused.items() if _may_change(each)}
        if later and waiting.over(later):
            later = {}
        others = {name: _words(refused[name]) for name in refused if name not in later}
        for name, reason in others.items():
            end.drop(name, reason)
        end.check_number()
        if others:
            waiting.go_on_without(others)
        undecided = tuple(later)
    return joined


def _joined(answer: Tree, expected: bytes) -> Joined:
    body = table(answer, "schema", "mark", "patients")
    schema, patients = body["schema"], body["patients"]
    if not isinstance(schema, bytes) or schema != expected:
        raise MessageError("It reads the study's columns in another way.")
    if patients is not None and (type(patients) is not int or not 0 <= patients <= _MOST):
        raise MessageError("It does not say how many patients it has.")
    if not isinstance(body["mark"], str):
        raise MessageError("It does not say which patients it answers about.")
    return Joined(patients, body["mark"])


def _may_change(reason: str | Refusal) -> bool:
    return isinstance(reason, Refusal) and reason.reason in _LATER


def _words(reason: str | Refusal) -> str:
    return reason.words if isinstance(reason, Refusal) else reason


def run_study(
    run: RunFolder,
    transport: Transport,
    centers: Sequence[str],
    *,
    command: str | None = None,
    pings: int = 0,
    wait: float = 3600.0,
    pause: float = 2.0,
) -> None:
    """Run the study of this folder; how it ends is left there.

    `centers` are all that were invited. Those whose data managers have not approved the study
    are asked again every `pause` seconds, for `wait` seconds. Before that, before every
    question and after the last come `pings` empty rounds, which show how long the line takes.
    """
    with run.alone(_PATIENCE):
        run.error.unlink(missing_ok=True)
        try:
            fitted = _fitted(run, transport, centers, pings, Waiting(run, wait, pause))
            write_run(
                replace(fitted, command=command, deployed=True), run.result, overwrite=True
            )
        except InputError as error:
            run.fail(error)
            run.tell("failed")
        except Exception:
            run.fail(InputError("Something went wrong at the coordinator; see its server.log."))
            run.tell("failed")
            raise
        else:
            run.tell("done")


def _fitted(
    run: RunFolder, transport: Transport, centers: Sequence[str], pings: int, waiting: Waiting
) -> FittedStudy:
    study = Study.read(run.study).between_hospitals(len(centers))
    _check_batches(study)
    if study.privacy.noised:
        # A price that cannot be had is told before anybody is asked.
        spending(study, len(centers))
    end = _coordinator_end(run, study, transport, centers)
    end.ping(pings)
    known = identities(run, end, waiting)
    code = study_code(study, centers, known)
    run.tell("code", code=code, centers=list(end.names))
    joined = invite(study, end, centers, known, waiting)
    if study.privacy.noised:
        _go_on_with_the_same(run, end, joined)
    if study.privacy.secure_sums:
        # On the disk before a sum is opened without them: hospitals remember it, and would
        # refuse a run that forgot it in a crash.
        run.leave_out(end.without)
        end.on_going_on = run.leave_out
    bare = _federation(study, end, code, known, joined)
    end.pings = pings
    with _kept(run, study, bare, joined) as federation, warnings.catch_warnings():
        absent = absent_centers(sorted(set(centers) - set(federation.names)))
        warnings.simplefilter("ignore", FedcoxWarning)  # the fit's notices hold them
        fitted = fit(study, federation, lambda step: _tell_step(run, step))
    end.ping(pings)
    return replace(fitted, notices=(*absent, *fitted.notices))


def _go_on_with_the_same(
    run: RunFolder, end: CoordinatorEnd, joined: Mapping[str, Joined]
) -> None:
    """Under noise a run goes on from its last round, without those that were not in it."""
    before = last_centers(run.checkpoint)
    if before is None:
        return
    for name in end.names:
        if name not in before:
            end.drop(name, "the run went on without it")
        elif before[name] != joined[name].mark:
            end.drop(name, "its patients are others than in the rounds before")
    end.check_number()


def _check_batches(study: Study) -> None:
    """Under masks nobody may know how many patients a center has, so none can be numbered."""
    if study.privacy.secure_sums and getattr(study.solver, "batch_size", None) is not None:
        raise StudyError(
            "Batches of patients cannot be drawn over hospitals under secure sums.",
            ["Leave batch_size out of [solver], so that every step is over all patients."],
        )


def _coordinator_end(
    run: RunFolder, study: Study, transport: Transport, centers: Sequence[str]
) -> CoordinatorEnd:
    end = CoordinatorEnd(
        transport,
        needed=study.attendance.among(len(centers)),
        timeout=study.attendance.timeout or TIMEOUT,
        watch=lambda exchange: _tell(run, exchange),
    )
    for name in sorted(set(centers) - set(transport.names)):
        end.drop(name, "it is not connected")
    for name in run.left_out():
        end.drop(name, "the run went on without it, and sums with it would give it away")
    end.check_number()
    return end


def _federation(
    study: Study,
    end: CoordinatorEnd,
    code: str,
    known: Mapping[str, str],
    joined: Mapping[str, Joined],
) -> Federation:
    if not study.privacy.secure_sums:
        counted = {name: each.patients for name, each in joined.items()}
        patients = {name: number for name, number in counted.items() if number is not None}
        whole = len(patients) == len(counted)
        return RemoteFederation(
            end, len(study.schema.encoded_names), patients if whole else None
        )
    from fedcox.engines.masked import Masked
    from fedcox.engines.nvflare.coordinator_end import RemoteMaskedCenters

    return Masked(code, _public(known), RemoteMaskedCenters(end))


@contextmanager
def _kept(
    run: RunFolder, study: Study, federation: Federation, joined: Mapping[str, Joined]
) -> Iterator[Federation]:
    """The federation with every finished round on disk, where that is of use."""
    if _begins_anew(study):
        shutil.rmtree(run.checkpoint, ignore_errors=True)
        yield federation
        return
    marks = {name: each.mark for name, each in joined.items()}
    with Checkpointed(
        federation,
        run.checkpoint,
        len(study.schema.encoded_names),
        marks,
        goes_on=study.privacy.noised,
    ) as kept:
        yield kept


def _begins_anew(study: Study) -> bool:
    """Whether a run that was broken off is asked again from its first question.

    Where gradients are compressed, a center's next reply depends on what it has not sent yet,
    and that ended with its process.
    """
    return getattr(study.solver, "compression", "none") != "none"


def _public(known: Mapping[str, str]) -> dict[str, PublicIdentity]:
    from fedcox.privacy.identity import PublicIdentity

    return {name: PublicIdentity.from_text(text) for name, text in known.items()}


def _tell(run: RunFolder, exchange: MessageRound) -> None:
    run.tell(
        "exchange",
        number=exchange.number,
        step=exchange.step,
        questions=list(exchange.queries),
        seconds=dict(exchange.seconds),
        lost=dict(exchange.lost),
    )


def _tell_step(run: RunFolder, step: Step) -> None:
    loss = step.loss if math.isfinite(step.loss) else None  # under noise nobody asks for it
    run.tell("step", loss=loss, decrement=step.decrement)
