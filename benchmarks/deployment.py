"""What a round costs between machines: `python -m benchmarks.deployment`.

A real server and five centers of 10,000 simulated patients as separate processes on this
machine, connected by mutual TLS. Empty rounds and the study's rounds come from one job. The
processes share this machine's cores, which hospitals would not.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.analysis.fit import fit
from fedcox.analysis.simulation import clinical_study, write_simulation
from fedcox.analysis.study import Study
from fedcox.data.cohort_file import read_cohort
from fedcox.data.synthetic import simulate_hospitals
from fedcox.deployment import client, jobs, server
from fedcox.deployment.approval import Approvals
from fedcox.deployment.center_folder import CenterFolder, join
from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.hospital_desk import NO_LIMITS, CenterSettings
from fedcox.deployment.participants import Participants
from fedcox.deployment.run_folder import RunFolder
from fedcox.deployment.run_start import begin
from fedcox.deployment.study_code import study_code
from fedcox.engines.in_process import InProcess
from fedcox.reports.run_folder import read_run

RESULT = Path("benchmarks/results/deployment.json")
_PATIENCE = 180.0


@dataclass(frozen=True)
class Measured:
    """One run: rounds of messages, and seconds of a round in the middle of all."""

    made: str
    versions: dict[str, str]
    cores: int
    centers: int
    patients: int
    rounds: int  # the invitation and every question
    empty_round: float
    empty_round_slowest: float
    round: float
    round_slowest: float
    start: float  # from submitting to the first message
    study: float  # from the invitation to the result
    same_bits: bool

    @property
    def ratio(self) -> float:
        return self.round / self.empty_round

    def lines(self) -> Iterator[str]:
        """The targets, and what was found."""
        yield f"{self.centers} centers of {self.patients // self.centers:,} patients"
        yield f"rounds of messages, at most 9: {self.rounds}"
        yield f"a round over an empty round, at most 1.5: {self.ratio:.2f}"
        yield f"an empty round, at most 0.3 s: {self.empty_round:.3f} s"
        yield f"slowest empty round {self.empty_round_slowest:.3f} s"
        yield f"a round {self.round:.3f} s, the slowest {self.round_slowest:.3f} s"
        yield f"submitted to first message {self.start:.1f} s; study {self.study:.1f} s"
        yield f"the result is that of one process bit for bit: {self.same_bits}"


def measure(centers: int, patients: int, pings: int) -> Measured:
    """Start everything, run one job, end everything."""
    names = tuple(f"hospital_{number}" for number in range(1, centers + 1))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        study = clinical_study()
        simulated = simulate_hospitals(patients, centers, rng=np.random.default_rng(1))
        write_simulation(folder / "patients", study, simulated)
        with _federation(folder, study, names) as home:
            begun, run = _run(home, study, len(names), pings)
            found = _measured(folder, study, names, run, begun, patients)
    return found


@contextmanager
def _federation(
    folder: Path, study: Study, names: Sequence[str]
) -> Iterator[CoordinatorFolder]:
    now = datetime.now(UTC)
    participants = Participants("benchmark", "127.0.0.1", _free_port(), tuple(names))
    passwords = make_folder(folder / "coordinator", participants, days=2, now=now)
    home = CoordinatorFolder.read(folder / "coordinator")
    code = study_code(study, names, {})
    with ExitStack() as stack:
        stack.callback(server.stop, home)
        server.start(home)
        for name in names:
            kit = home.kits / f"{name}.kit"
            center = join(kit, passwords[name], folder / name, now=now)
            data = str(folder / "patients" / f"{name}.csv")
            CenterSettings(data, NO_LIMITS).write(center.settings)
            Approvals(center.pending, center.approved).decide(code, approve=True)
            stack.enter_context(_connected(center))
        yield home


@contextmanager
def _connected(center: CenterFolder) -> Iterator[subprocess.Popen[bytes]]:
    process = client.run(center)
    try:
        yield process
    finally:
        client.stop(center)
        process.communicate()


def _run(
    home: CoordinatorFolder, study: Study, centers: int, pings: int
) -> tuple[float, RunFolder]:
    run = begin(home, study, "", resume=False, overwrite=False, wait=_PATIENCE, pings=pings)
    end = time.monotonic() + _PATIENCE
    with jobs.session(home) as line:
        while len(line.connected()) < centers:
            _wait(end)
        begun = time.time()
        job = line.submit(run.path.name, centers)
        while line.state(job).name in ("submitted", "running"):
            _wait(end)
    failure = run.failure()
    if failure is not None:
        raise failure
    return begun, run


def _measured(
    folder: Path,
    study: Study,
    names: Sequence[str],
    run: RunFolder,
    begun: float,
    patients: int,
) -> Measured:
    told = [json.loads(line) for line in run.progress.read_text().splitlines()]
    pings, asked = _gaps(told, "ping"), _gaps(told, "ask")
    messages = [each for each in told if each["kind"] == "exchange" and each["step"] != "ping"]
    invited = next(each["at"] for each in told if each["kind"] == "code")
    done = next(each["at"] for each in told if each["kind"] == "done")
    first = next(each for each in told if each["kind"] == "exchange")
    return Measured(
        datetime.now(UTC).date().isoformat(),
        {name: version(name) for name in ("fedcox", "nvflare", "numpy")}
        | {"python": platform.python_version()},
        os.cpu_count() or 1,
        len(names),
        patients,
        len(messages),
        statistics.median(pings),
        max(pings),
        statistics.median(asked),
        max(asked),
        first["at"] - max(first["seconds"].values()) - begun,
        done - invited,
        _same_bits(folder, study, names, run),
    )


def _gaps(told: Sequence[dict[str, Any]], step: str) -> list[float]:
    """Seconds from the end of one round to the end of the next, with all work in between."""
    ends = [(each["at"], each["step"]) for each in told if each["kind"] == "exchange"]
    return [there - here for (here, _), (there, kind) in pairwise(ends) if kind == step]


def _same_bits(folder: Path, study: Study, names: Sequence[str], run: RunFolder) -> bool:
    loaded = {
        name: read_cohort(folder / "patients" / f"{name}.csv", study.schema, center=name)
        for name in names
    }
    expected, found = fit(study, InProcess.from_loaded(loaded)), read_run(run.result)
    return (found.coefficients, found.baseline, found.log_likelihood, found.rounds) == (
        expected.coefficients,
        expected.baseline,
        expected.log_likelihood,
        expected.rounds,
    )


def _wait(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError("the federation does not answer")
    time.sleep(0.3)


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
    parser.add_argument("--pings", type=int, default=40, help="empty rounds")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT}")
    given = parser.parse_args()
    found = measure(given.centers, given.patients, given.pings)
    for line in found.lines():
        print(line)
    if given.keep:
        RESULT.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
