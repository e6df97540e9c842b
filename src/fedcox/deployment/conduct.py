"""One study between hospitals, from the first message to the report.

It runs in the server's job process and talks to the rest by files of the run's folder.
"""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from fedcox.deployment.invitation import Joined, Waiting, identities, invite
from fedcox.deployment.run_folder import RunFolder
from fedcox.deployment.study_code import study_code
from fedcox.engines.checkpoint import Checkpointed, last_centers
from fedcox.engines.nvflare.hub import Hub
from fedcox.engines.nvflare.line import Line
from fedcox.engines.nvflare.switchboard import Exchange, Switchboard
from fedcox.errors import FedcoxWarning, InputError, StudyError
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

#: Seconds for a round, where the study names none.
TIMEOUT = 300.0
#: Seconds that the process of a job that was broken off has to end.
_PATIENCE = 60.0


def conduct(
    run: RunFolder,
    line: Line,
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
            fitted = _conducted(run, line, centers, pings, Waiting(run, wait, pause))
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


def _conducted(
    run: RunFolder, line: Line, centers: Sequence[str], pings: int, waiting: Waiting
) -> FittedStudy:
    study = Study.read(run.study).between_hospitals(len(centers))
    _check_batches(study)
    if study.privacy.noised:
        # A price that cannot be had is told before anybody is asked.
        spending(study, len(centers))
    board = _switchboard(run, study, line, centers)
    board.ping(pings)
    known = identities(run, board, waiting)
    code = study_code(study, centers, known)
    run.tell("code", code=code, centers=list(board.names))
    joined = invite(study, board, centers, known, waiting)
    if study.privacy.noised:
        _go_on_with_the_same(run, board, joined)
    if study.privacy.secure_sums:
        # On the disk before a sum is opened without them: hospitals remember it, and would
        # refuse a run that forgot it in a crash.
        run.leave_out(board.without)
        board.on_going_on = run.leave_out
    bare = _federation(study, board, code, known, joined)
    board.pings = pings
    with _kept(run, study, bare, joined) as federation, warnings.catch_warnings():
        absent = absent_centers(sorted(set(centers) - set(federation.names)))
        warnings.simplefilter("ignore", FedcoxWarning)  # the fit's notices hold them
        fitted = fit(study, federation, lambda step: _tell_step(run, step))
    board.ping(pings)
    return replace(fitted, notices=(*absent, *fitted.notices))


def _go_on_with_the_same(
    run: RunFolder, board: Switchboard, joined: Mapping[str, Joined]
) -> None:
    """Under noise a run goes on from its last round, without those that were not in it."""
    before = last_centers(run.checkpoint)
    if before is None:
        return
    for name in board.names:
        if name not in before:
            board.drop(name, "the run went on without it")
        elif before[name] != joined[name].mark:
            board.drop(name, "its patients are others than in the rounds before")
    board.check_number()


def _check_batches(study: Study) -> None:
    """Under masks nobody may know how many patients a center has, so none can be numbered."""
    if study.privacy.secure_sums and getattr(study.solver, "batch_size", None) is not None:
        raise StudyError(
            "Batches of patients cannot be drawn over hospitals under secure sums.",
            ["Leave batch_size out of [solver], so that every step is over all patients."],
        )


def _switchboard(
    run: RunFolder, study: Study, line: Line, centers: Sequence[str]
) -> Switchboard:
    board = Switchboard(
        line,
        needed=study.attendance.among(len(centers)),
        timeout=study.attendance.timeout or TIMEOUT,
        watch=lambda exchange: _tell(run, exchange),
    )
    for name in sorted(set(centers) - set(line.names)):
        board.drop(name, "it is not connected")
    for name in run.left_out():
        board.drop(name, "the run went on without it, and sums with it would give it away")
    board.check_number()
    return board


def _federation(
    study: Study,
    board: Switchboard,
    code: str,
    known: Mapping[str, str],
    joined: Mapping[str, Joined],
) -> Federation:
    if not study.privacy.secure_sums:
        counted = {name: each.patients for name, each in joined.items()}
        patients = {name: number for name, number in counted.items() if number is not None}
        whole = len(patients) == len(counted)
        return Hub(board, len(study.schema.encoded_names), patients if whole else None)
    from fedcox.engines.masked import Masked
    from fedcox.engines.nvflare.carrier import SwitchboardCarrier

    return Masked(code, _public(known), SwitchboardCarrier(board))


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


def _tell(run: RunFolder, exchange: Exchange) -> None:
    run.tell(
        "exchange",
        number=exchange.number,
        step=exchange.step,
        questions=list(exchange.questions),
        seconds=dict(exchange.seconds),
        lost=dict(exchange.lost),
    )


def _tell_step(run: RunFolder, step: Step) -> None:
    loss = step.loss if math.isfinite(step.loss) else None  # under noise nobody asks for it
    run.tell("step", loss=loss, decrement=step.decrement)
