"""What a round costs between machines: `python -m benchmarks.deployment`.

A real server and five centers of 10,000 simulated patients as separate processes on this
machine, connected by mutual TLS. Each study is a job, with empty rounds between its own ones:
what else happens on this machine meanwhile slows both. Every round of every study counts, with
all that the coordinator does before it and after the last answer; an empty round ends with the
last answer. The processes share this machine's cores, which hospitals would not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from fedcox.data.cohort_file import read_cohort
from fedcox.data.synthetic import simulate_hospitals
from fedcox.deployment import client, jobs, processes, server
from fedcox.deployment.approval import Approvals
from fedcox.deployment.center_folder import NO_LIMITS, CenterFolder, CenterSettings, join
from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.kit import Participants
from fedcox.deployment.runs import RunFolder, begin, ended
from fedcox.engines.in_process import InProcess
from fedcox.files.followed import FollowedFile
from fedcox.reports.run_folder import read_run
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from fedcox.study.simulation import clinical_study, write_simulation
from fedcox.study.study import Study

RESULT = Path("benchmarks/results/deployment.json")
#: Seconds that something may take on a busy machine, and between two looks.
_PATIENCE, _GLANCE = 600.0, 1.0


@dataclass(frozen=True)
class Timed:
    """One study: rounds of messages, and seconds."""

    rounds: int  # the invitation and every question
    asked: tuple[float, ...]  # rounds in which a question was asked
    empty: tuple[tuple[float, ...], ...]  # empty rounds just before and after each of them
    start: float  # from submitting to the first message
    study: float  # from the invitation to the result, the empty rounds among it
    same_bits: bool

    @property
    def ratios(self) -> list[float]:
        """Each round over an empty one in the middle of those beside it."""
        beside = map(statistics.median, self.empty)
        return [asked / empty for asked, empty in zip(self.asked, beside, strict=True)]

    @property
    def ratio(self) -> float:
        """Of a round in the middle."""
        return statistics.median(self.ratios)

    @property
    def whole(self) -> float:
        """All rounds together over as many empty ones: the slowest of them counts in full."""
        return sum(self.asked) / sum(map(statistics.median, self.empty))


@dataclass(frozen=True)
class Measured:
    """Several studies one after the other, over the same connections."""

    made: str
    versions: dict[str, str]
    cores: int
    centers: int
    patients: int
    studies: tuple[Timed, ...]

    @property
    def summary(self) -> dict[str, Any]:
        """Over the rounds of all studies; none is left out."""
        every = [ratio for each in self.studies for ratio in each.ratios]
        empty = [seconds for each in self.studies for few in each.empty for seconds in few]
        asked = [seconds for each in self.studies for seconds in each.asked]
        low, middle, high = statistics.quantiles(every, n=4, method="inclusive")
        return {
            "rounds": max(each.rounds for each in self.studies),
            "ratio": middle,
            "ratio_quartiles": [low, high],
            "ratio_of_each_study": [each.ratio for each in self.studies],
            "worst_study": max(each.ratio for each in self.studies),
            "whole_of_each_study": [each.whole for each in self.studies],
            "empty_round": statistics.median(empty),
            "empty_round_slowest": max(empty),
            "round": statistics.median(asked),
            "round_slowest": max(asked),
            "start": statistics.median(each.start for each in self.studies),
            "study": statistics.median(each.study for each in self.studies),
            "same_bits": all(each.same_bits for each in self.studies),
        }

    def lines(self) -> Iterator[str]:
        """The targets, and what was found."""
        found = self.summary
        low, high = found["ratio_quartiles"]
        asked = sum(len(each.asked) for each in self.studies)
        yield (
            f"{self.centers} centers of {self.patients // self.centers:,} patients, "
            f"{len(self.studies)} studies, {asked} rounds with empty ones between them"
        )
        yield f"rounds of messages of one study, at most 9: {found['rounds']}"
        yield (
            f"a round over the empty rounds beside it, at most 1.5: {found['ratio']:.2f} "
            f"(half of them between {low:.2f} and {high:.2f})"
        )
        each = ", ".join(f"{ratio:.2f}" for ratio in found["ratio_of_each_study"])
        yield f"the same for each study: {each}; the worst {found['worst_study']:.2f}"
        each = ", ".join(f"{ratio:.2f}" for ratio in found["whole_of_each_study"])
        yield f"all rounds of a study over as many empty ones: {each}"
        yield f"an empty round, at most 0.3 s: {found['empty_round']:.3f} s"
        yield f"slowest empty round {found['empty_round_slowest']:.3f} s"
        yield f"a round {found['round']:.3f} s, the slowest {found['round_slowest']:.3f} s"
        yield f"submitted to first message {found['start']:.1f} s; study {found['study']:.1f} s"
        yield f"the files are those of one process: {found['same_bits']}"


def measure(centers: int, patients: int, studies: int, pings: int) -> Measured:
    """Start everything, run one job for each study, end everything."""
    names = tuple(f"hospital_{number}" for number in range(1, centers + 1))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # Exact sums without masks: what is measured is the line, not the noise.
        plain = {"privacy": {"secure_sums": False, "noise": "none"}}
        study = Study.from_dict({**clinical_study().to_dict(), **plain})
        simulated = simulate_hospitals(patients, centers, rng=np.random.default_rng(1))
        write_simulation(folder / "patients", study, simulated)
        expected = _in_one_process(folder, study, names)
        with federation(folder, names) as home, jobs.session(home) as line:
            timed = []
            for _ in range(studies):
                until(lambda: len(line.connected()) == centers)
                approve = partial(approve_what_waits, folder, names)
                begun, run = run_study(home, line, study, pings, approve)
                same = _numbers(read_run(run.result)) == expected
                timed.append(_timed(run, begun, same_bits=same))
                # A job of the study that is still ending would make the next one wait.
                until(lambda: not any(job_left(folder / name) for name in names))
    return Measured(
        datetime.now(UTC).date().isoformat(),
        {name: version(name) for name in ("fedcox", "nvflare", "numpy")}
        | {"python": platform.python_version()},
        os.cpu_count() or 1,
        centers,
        patients,
        tuple(timed),
    )


@contextmanager
def federation(folder: Path, names: Sequence[str]) -> Iterator[CoordinatorFolder]:
    """A server and centers that hold folder/patients/NAME.csv, each a process, connected."""
    now = datetime.now(UTC)
    participants = Participants("benchmark", "127.0.0.1", _free_port(), tuple(names))
    passwords = make_folder(folder / "coordinator", participants, days=2, now=now)
    home = CoordinatorFolder.read(folder / "coordinator")
    centers = {
        name: join(home.kits / f"{name}.kit", passwords[name], folder / name, now=now)
        for name in names
    }
    with ExitStack() as stack:
        stack.callback(server.stop, home)
        server.start(home)
        for name, center in centers.items():
            data = str(folder / "patients" / f"{name}.csv")
            CenterSettings(data, NO_LIMITS).write(center.settings)
            stack.enter_context(_connected(center))
        yield home


def _approvals(place: Path) -> Approvals:
    center = CenterFolder.read(place)
    return Approvals(center.pending, center.approved)


def approve_what_waits(folder: Path, names: Sequence[str]) -> None:
    """The data managers' part, where hospitals show a study before they answer it."""
    for name in names:
        approvals = _approvals(folder / name)
        for request in approvals.waiting():
            approvals.decide(request.code, approve=True)


@contextmanager
def _connected(center: CenterFolder) -> Iterator[subprocess.Popen[bytes]]:
    process = client.run(center)
    try:
        yield process
    finally:
        client.stop(center)
        process.communicate()


def run_study(
    home: CoordinatorFolder,
    line: jobs.ServerSession,
    study: Study,
    pings: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[float, RunFolder]:
    """Submit a study and wait for its end: when it was submitted, and its folder."""
    run = begin(home, study, "", resume=False, overwrite=True, wait=_PATIENCE, pings=pings)
    begun = time.time()
    job = line.submit(run.path.name, len(home.centers))

    def over() -> bool:
        meanwhile()
        return _over(home, line, job, run)

    until(over, _GLANCE)
    failure = run.failure()
    if failure is not None:
        raise failure
    return begun, run


def _over(home: CoordinatorFolder, line: jobs.ServerSession, job: str, run: RunFolder) -> bool:
    """By the run's own words once it speaks: to ask the server takes time from the rounds."""
    told = told_by(run)
    return told[-1]["kind"] in ("done", "failed") if told else ended(home, line, job, run)


def told_by(run: RunFolder) -> list[dict[str, Any]]:
    """What the run said of itself so far."""
    return FollowedFile(run.progress, from_start=True).rows()


def _timed(run: RunFolder, begun: float, *, same_bits: bool) -> Timed:
    told = told_by(run)
    exchanged = [_Round.told(each) for each in told if each["kind"] == "exchange"]
    rounds = sum(each.step in ("study", "ask") for each in exchanged)
    asked = [place for place, each in enumerate(exchanged) if each.step == "ask"]
    invited = next(each["at"] for each in told if each["kind"] == "code")
    done = next(each["at"] for each in told if each["kind"] == "done")
    return Timed(
        rounds,
        tuple(_asked(exchanged, place) for place in asked),
        tuple((*_before(exchanged, place), *_after(exchanged, place)) for place in asked),
        exchanged[0].begun - begun,
        done - invited,
        same_bits,
    )


@dataclass(frozen=True)
class _Round:
    step: str
    begun: float
    ended: float

    @classmethod
    def told(cls, row: dict[str, Any]) -> _Round:
        return cls(row["step"], row["at"] - max(row["seconds"].values()), row["at"])

    @property
    def lasted(self) -> float:
        return self.ended - self.begun


def _asked(exchanged: Sequence[_Round], place: int) -> float:
    """A round with all the coordinator did since the message before, without empty ones."""
    empty = len(_before(exchanged, place))
    prepared = exchanged[place - empty].begun - exchanged[place - empty - 1].ended
    return prepared + exchanged[place].ended - exchanged[place - 1].ended


def _before(exchanged: Sequence[_Round], place: int) -> list[float]:
    return _lasted(reversed(exchanged[:place]))


def _after(exchanged: Sequence[_Round], place: int) -> list[float]:
    return _lasted(exchanged[place + 1 :])


def _lasted(following: Iterable[_Round]) -> list[float]:
    """How long empty rounds took, up to the next of another kind."""
    return [each.lasted for each in takewhile(lambda each: each.step == "ping", following)]


def _in_one_process(folder: Path, study: Study, names: Sequence[str]) -> tuple[Any, ...]:
    loaded = {
        name: read_cohort(folder / "patients" / f"{name}.csv", study.schema, center=name)
        for name in names
    }
    return _numbers(fit(study, InProcess.from_loaded(loaded, apart=True)))


def _numbers(found: FittedStudy) -> tuple[Any, ...]:
    found = released(found)  # as files have them
    return found.coefficients, found.baseline, found.log_likelihood, found.rounds


def job_left(center: Path) -> bool:
    """Whether a process that answers a study runs at a center."""
    return any(map(_answers_a_study, processes.belonging(center / "flare")))


def _answers_a_study(process: psutil.Process) -> bool:
    try:
        return "fedcox.deployment.guarded_job" in process.cmdline()
    except psutil.Error:  # it ended just now
        return False


def until(true: Callable[[], bool], pause: float = 0.3) -> None:
    """Wait for it; TimeoutError where it does not come."""
    end = time.monotonic() + _PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the federation does not answer")
        time.sleep(pause)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
    return port


def main() -> None:
    """Measure, print, and keep the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--centers", type=int, default=5)
    parser.add_argument("--patients", type=int, default=50_000, help="over all centers")
    parser.add_argument("--studies", type=int, default=8, help="one after the other")
    parser.add_argument(
        "--pings", type=int, default=3, help="empty rounds before each round and after the last"
    )
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT}")
    given = parser.parse_args()
    if given.pings < 1:
        parser.error("--pings: at least one empty round is needed to compare with")
    found = measure(given.centers, given.patients, given.studies, given.pings)
    for line in found.lines():
        print(line)
    if given.keep:
        stored = {**found.summary, **asdict(found)}
        RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
