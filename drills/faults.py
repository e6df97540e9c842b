"""What is killed or stopped, and what must hold afterwards: one function for each drill."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drills.federation import EXACT, NAMES, DrillError, Federation, Started, Study, rows, waited
from fedcox.privacy.budget import Budget

#: Of exact sums: many short rounds, so that there is always one to be held open.
STEPS = 60
SOLVER = f'method = "adam"\nsteps = {STEPS}'
#: One that ends at the optimum, wherever it began: a center is lost, and it goes on from there.
TO_THE_END = 'method = "lbfgs"\ntolerance = 1e-18'
#: Finished rounds before something happens.
ROUNDS = 4
MINUTE = 60.0
#: How far the usual noise, a third of a standard error, may move a coefficient.
FAR = 2.0
#: What one study may spend, and not a second one.
ROOM, DELTA = 50.0, 1.5e-5
POLICY = """epsilon = {epsilon}
delta = {delta}
"""


@dataclass
class Log:
    """What was done and what held, in words, with seconds since the drill began."""

    write: Callable[[str], None]
    _begun: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        self.write(f"{time.monotonic() - self._begun:7.1f} s  {words}")

    def holds(self, claim: str, true: object, told: str = "") -> None:
        """Write the claim down, or stop the drill because it does not hold, as was `told`."""
        if not true:
            self.say(f"FAILED: {claim}")
            raise DrillError(f"this does not hold: {claim}\n{told}".rstrip())
        self.say(f"holds: {claim}")

    def ends(self, claim: str, run: Started, status: int) -> None:
        """A command ends by itself with this exit status."""
        found = run.ended()
        told = f"Its exit status is {found}, and it printed:\n{run.printed()}"
        self.holds(claim, found == status, told)


def center_killed(federation: Federation, log: Log) -> None:
    """A center is killed in mid-round, and comes back: nothing is asked anew."""
    study = _study(federation, "center-killed", federation.short)
    run = _begun(study)
    study.held("C", ROUNDS)
    federation.kill_center("C")
    log.say(f"kill -9 of every process of C in round {len(study.rounds()) + 1}")
    log.ends("the run stops", run, 2)
    log.holds(
        f"it names the center: {_error(run.printed())}",
        "3 centers are left, and the study needs 4." in run.printed()
        and f"C: no answer within {study.timeout:g} seconds." in run.printed(),
    )
    log.holds("there is no result", not (federation.folder / "center-killed").exists())
    federation.restart_center("C")
    _resumed(study, log)


def center_lost(federation: Federation, log: Log) -> None:
    """A center is killed for good, and three of four are enough: the fit of the others."""
    study = _study(federation, "center-lost", federation.short, needed="3")
    run = _begun(study)
    study.held("C", ROUNDS)
    federation.kill_center("C")
    log.say(f"kill -9 of every process of C in round {len(study.rounds()) + 1}")
    log.ends("the run ends by itself", run, 0)
    _among_the_others(study, log)


def server_killed(federation: Federation, log: Log) -> None:
    """The server and its study are killed in mid-round: start and resume."""
    study = _study(federation, "server-killed", 60.0)
    run = _begun(study)
    stopped = study.held("C", ROUNDS)
    old = {name: federation.job_pids(name) for name in NAMES}
    federation.kill_server()
    os.kill(stopped, signal.SIGCONT)
    log.say(f"kill -9 of the server and of its study in round {len(study.rounds()) + 1}")
    log.ends("the command ends", run, 2)
    log.holds(f"it says so: {_error(run.printed())}", "server stopped during" in run.printed())
    federation.start_server()
    _resumed(study, log)
    left = [pid for pids in old.values() for pid in pids if _lives(pid)]
    log.holds("no process that answered before the crash is left", left == [])
    _one_round_again(study, log)


def frozen_for_a_minute(federation: Federation, log: Log) -> None:
    """A center's process is stopped for a minute, and a round may take longer: it goes on."""
    study = _study(federation, "frozen-a-minute", 1.5 * MINUTE)
    run = _begun(study)
    stopped = study.held("C", ROUNDS)
    held = len(study.rounds())
    log.say(f"C's process is stopped in round {held + 1}")
    time.sleep(MINUTE)
    log.holds("no round was finished meanwhile", len(study.rounds()) == held)
    os.kill(stopped, signal.SIGCONT)
    log.say(f"it is woken after {MINUTE:g} s")
    log.ends("the run ends by itself", run, 0)
    _as_without_a_crash(study, log)


def frozen_too_long(federation: Federation, log: Log) -> None:
    """A center is stopped beyond the timeout: lost by name; its late answer changes nothing."""
    study = _study(federation, "frozen-too-long", federation.short, needed="3")
    run = _begun(study)
    stopped = study.held("C", ROUNDS)
    answered = len(study.left("C"))
    log.say(f"C's process is stopped in round {len(study.rounds()) + 1}")
    study.until("C is given up", lambda: any(row["lost"] for row in study.rounds()))
    os.kill(stopped, signal.SIGCONT)
    log.say("it is woken after it was given up, while the others go on")
    waited("C answers late", lambda: len(study.left("C")) > answered)
    log.holds("it answers late, while the study runs", run.process.poll() is None)
    log.ends("the run ends by itself", run, 0)
    _among_the_others(study, log)
    log.holds(
        "C answered that one question, and no other", len(study.left("C")) == answered + 1
    )


def terminal_closed(federation: Federation, log: Log) -> None:
    """`fedcox coordinator run` is killed: the study goes on; --resume fetches its result."""
    study = _study(federation, "terminal-closed", 60.0)
    run = _begun(study)
    study.rounds_finished(ROUNDS)
    run.kill()
    log.say(f"kill -9 of fedcox coordinator run after round {len(study.rounds())}")
    waited("there is a result", lambda: (study.kept / "result").exists())
    log.say("the study went on to its end")
    before = [len(study.left(name)) for name in NAMES]
    _resumed(study, log)
    after = [len(study.left(name)) for name in NAMES]
    log.holds("nothing was asked a second time", after == before)


def terminal_closed_and_resumed(federation: Federation, log: Log) -> None:
    """The same, with --resume typed at once: one job waits for the other."""
    study = _study(federation, "terminal-reopened", 60.0)
    run = _begun(study)
    study.rounds_finished(ROUNDS)
    run.kill()
    log.say(f"kill -9 of fedcox coordinator run after round {len(study.rounds())}")
    _resumed(study, log)
    for name in NAMES:
        log.holds(
            f"{name} answered every round once", len(study.left(name)) == _questions(study)
        )


def stopped_by_hand(federation: Federation, log: Log) -> None:
    """Ctrl-C while one center is slow, which the others could do without: it is not lost."""
    study = _study(federation, "stopped-by-hand", 5 * MINUTE, needed="3")
    run = _begun(study)
    study.held("C", ROUNDS)
    kept = len(study.rounds())
    run.process.send_signal(signal.SIGINT)
    log.say(f"Ctrl-C in fedcox coordinator run in round {kept + 1}, which the others answered")
    log.ends("the command ends", run, 130)
    study.until("the study has ended", lambda: study.progress()[-1]["kind"] == "failed")
    log.holds("no center was lost by it", not any(row["lost"] for row in study.rounds()))
    _resumed(study, log)
    _one_round_again(study, log)


def center_not_started(federation: Federation, log: Log) -> None:
    """A center's process for the study does not start, and three of four are enough."""
    broken = federation.folder / "broken"
    broken.mkdir()
    text = "import os, sys\nif 'fedcox.deployment.guarded_job' in sys.orig_argv: os._exit(1)\n"
    (broken / "sitecustomize.py").write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(broken), *sys.path])
    federation.stop_center("C")
    federation.start_center("C", environment={"PYTHONPATH": path})
    study = _study(federation, "center-not-started", MINUTE, needed="3")
    federation.wait_for_centers()
    run = study.run(study.name)
    study.approve_everywhere()
    log.ends("the run ends by itself", run, 0)
    lost = [row["lost"] for row in study.progress() if row.get("lost", {}).get("C")]
    log.holds("it names the center", lost and "did not start" in lost[0]["C"])
    _fit_of_the_others(study, log)
    federation.stop_center("C")
    federation.start_center("C")


def budget_kept(federation: Federation, log: Log) -> None:
    """Two kills in a study under a policy with a limit: the budget is paid before, and once."""
    policy = federation.folder / "policy.toml"
    policy.write_text(_policy(federation), encoding="utf-8")
    for name in NAMES:
        federation.stop_center(name)
        federation.start_center(name, policy=str(policy))
    study = _study(federation, "budget-kept", federation.short)
    run = _begun(study)
    study.held("C", ROUNDS)
    federation.kill_center("C")
    log.say(f"kill -9 of every process of C in round {len(study.rounds()) + 1}")
    log.ends("the run stops", run, 2)
    _paid(study, log)
    federation.restart_center("C")
    run = study.run(study.name, "--resume")
    begun = len(study.rounds())
    study.rounds_finished(begun + ROUNDS)
    federation.kill_server()
    log.say(f"kill -9 of the server after round {len(study.rounds())}")
    log.ends("the command ends", run, 2)
    paid = _paid(study, log)
    federation.start_server()
    log.ends("it goes on to its end", study.run(study.name, "--resume"), 0)
    log.holds("nothing was paid a second time", _paid(study, log) == paid)
    _as_without_a_crash(study, log)
    for name in NAMES:
        federation.stop_center(name)


Drill = Callable[[Federation, Log], None]
#: Under a minute each, and run with the tests too.
QUICK: tuple[Drill, ...] = (center_killed, center_lost, server_killed, stopped_by_hand)
DRILLS: tuple[Drill, ...] = (
    *QUICK,
    terminal_closed,
    terminal_closed_and_resumed,
    frozen_too_long,
    frozen_for_a_minute,
    center_not_started,
    budget_kept,
)
#: Nothing is paid for exact sums.
PAID = frozenset({budget_kept.__name__})


def _study(
    federation: Federation, name: str, timeout: float, needed: str = "all", **changes: str
) -> Study:
    attendance = f"timeout = {timeout:g}" + ("" if needed == "all" else f"\nneeded = {needed}")
    changes = {**_solver(federation, to_the_end=needed != "all"), **changes}
    made = federation.study(name, **{**changes, "attendance": attendance})
    return replace(made, timeout=timeout)


def _solver(federation: Federation, *, to_the_end: bool) -> dict[str, str]:
    """Under noise the fit has its own way."""
    if not federation.exact:
        return {}
    return {"solver": TO_THE_END if to_the_end else SOLVER}


def _begun(study: Study) -> Started:
    """A run that every hospital approves, all of them connected."""
    study.federation.wait_for_centers()
    run = study.run(study.name)
    study.approve_everywhere()
    return run


def _resumed(study: Study, log: Log) -> None:
    finished = len(study.rounds())
    begun = time.monotonic()
    run = study.run(study.name, "--resume")
    log.ends("fedcox coordinator run --resume goes to the end", run, 0)
    asked = len(study.rounds()) - finished
    log.say(f"it took {time.monotonic() - begun:.0f} s and asked {asked} rounds")
    _as_without_a_crash(study, log)


def _one_round_again(study: Study, log: Log) -> None:
    """The round that was open when the study was broken off, and no other."""
    for name in NAMES:
        again = len(study.left(name)) - _questions(study)
        log.holds(f"{name} answered every round once, {again} a second time", again in (0, 1))


def _as_without_a_crash(study: Study, log: Log) -> None:
    """The same bits where sums are exact; under noise, each sum once and paid for once."""
    federation, found = study.federation, study.result(study.name)
    if federation.exact:
        expected = _reference(federation, NAMES, **_solver(federation, to_the_end=False))
        log.holds(
            "coefficients, baseline, likelihood, convergence and every other number equal "
            "those of a run without a crash bit for bit",
            _numbers(found) == _numbers(expected),
        )
        return
    _noise_kept(study, log, NAMES)


def _noise_kept(study: Study, log: Log, centers: Sequence[str]) -> None:
    """Every hospital paid once; who was there to the end used each sum that it paid for."""
    paid = dict(zip(NAMES, _paid(study, log), strict=True))
    used = {name: _used(study.federation.center(name), paid[name]) for name in centers}
    log.holds(
        f"every sum that was paid for was used, none more: {used}",
        all(used[name] == paid[name][0]["releases"] for name in centers),
    )
    protection = {row["protection"] for name in NAMES for row in study.left(name)}
    log.holds("nothing left a center without mask and noise", protection == {"masks and noise"})
    found = study.result(study.name)
    epsilon, most = found["guarantee"]["epsilon"], paid[centers[0]][0]["epsilon"]
    log.holds(f"the guarantee is what was paid for: epsilon {epsilon:.4g}", epsilon <= most)
    moved = _moved(found, _reference(study.federation, centers, **EXACT))
    log.holds(
        f"noise moved no coefficient by more than {moved:.2g} standard errors", moved < FAR
    )


def _among_the_others(study: Study, log: Log) -> None:
    _fit_of_the_others(study, log)
    found = study.result(study.name)
    log.holds(
        "the report says who was lost",
        any(
            each["name"] == "LostCentersWarning" and "C" in str(each)
            for each in found["warnings"]
        ),
    )
    vain = [row for row in study.rounds() if "C" in row["lost"]]
    log.holds("C was waited for in vain once", len(vain) == 1)
    slow = [row for row in study.rounds() if max(row["seconds"].values()) >= study.timeout]
    log.holds("one round lasted until its timeout, all others were quick", len(slow) == 1)


def _fit_of_the_others(study: Study, log: Log) -> None:
    federation, others = study.federation, tuple(name for name in NAMES if name != "C")
    if not federation.exact:
        _noise_kept(study, log, others)
        return
    found = study.result(study.name)
    expected = _reference(federation, others, **_solver(federation, to_the_end=True))
    same = all(found[key] == expected[key] for key in ("coefficients", "baseline", "patients"))
    apart = _apart(found, expected)
    words = "bit for bit" if same else f"coefficients within {apart:.0e}"
    log.holds(f"it is the fit of the others, {words}", apart < 1e-9)


def _reference(
    federation: Federation, centers: Sequence[str], **changes: str
) -> dict[str, Any]:
    """The same study without any crash, in one process; fitted once."""
    name = "-".join(["reference", *centers, *changes])
    study = federation.study(name, **changes)
    if (federation.folder / name).exists():
        return study.result(name)
    return study.fitted(name, centers)


def _numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Not the study's name; and centers that begin anew are sent what they knew before."""
    apart = ("study", "study_source", "bytes_down")
    return {key: value for key, value in result.items() if key not in apart}


def _apart(found: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    pairs = zip(found["coefficients"], expected["coefficients"], strict=True)
    return max(
        float(abs(one[key] - other[key])) for one, other in pairs for key in ("coef", "se")
    )


def _moved(found: Mapping[str, Any], exact: Mapping[str, Any]) -> float:
    """The most that a coefficient is away from that of exact sums, in standard errors."""
    pairs = zip(found["coefficients"], exact["coefficients"], strict=True)
    return max(float(abs(one["coef"] - other["coef"]) / other["se"]) for one, other in pairs)


def _questions(study: Study) -> int:
    """How many were asked in rounds that were finished."""
    return sum(len(row["questions"]) for row in study.rounds())


def _policy(federation: Federation) -> str:
    """Room for one study beside those before."""
    paid = rows(federation.center("A") / "budget.jsonl")
    epsilon, delta = (sum(row[key] for row in paid) for key in ("epsilon", "delta"))
    return POLICY.format(epsilon=epsilon + ROOM, delta=delta + DELTA)


def _paid(study: Study, log: Log) -> list[Any]:
    """What every hospital has paid for this study; it covers what has left."""
    found = []
    for name in NAMES:
        home = study.federation.center(name)
        payments = Budget(home / "budget.jsonl").spent.payments
        paid = [asdict(payment) for payment in payments if payment.name == study.name]
        left, used = len(study.left(name)), _used(home, paid)
        sums, epsilon = sum(row["releases"] for row in paid), sum(r["epsilon"] for r in paid)
        # A reply whose round was broken off leaves again as it was: that is no new sum.
        log.holds(
            f"{name} paid {len(paid)} times, epsilon {epsilon:.4g} for {sums} noised sums; "
            f"{used} were used and {left} replies left, so {left - used} again",
            len(paid) == (1 if left else 0) and used <= sums and 0 <= left - used <= 2,
        )
        found.append(paid)
    return found


def _used(home: Path, paid: Sequence[Mapping[str, Any]]) -> int:
    """Noised sums that have left, as the hospital remembers it."""
    if not paid:
        return 0
    file = home / "memory" / paid[0]["study"] / "study.json"
    remembered = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    return sum(right["used"] for right in remembered["rights"])


def _error(printed: str) -> str:
    return " ".join(printed[printed.rfind("Error:") :].split())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
