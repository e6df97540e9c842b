"""What noise costs in time between hospitals: `python -m benchmarks.private_time`.

The same five centers as in `benchmarks.deployment`: processes of their own, connected by mutual
TLS. Plain studies (no masks, no noise) and private ones (secure sums, and noise at the usual
price), one after the other. A study lasts from the invitation that all accepted to its result;
how long data managers take to approve it is not in it, and what comes before, to start its
processes, is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.deployment import (
    approve_what_waits,
    federation,
    job_left,
    run_study,
    told_by,
    until,
)
from fedcox.data.synthetic import simulate_hospitals
from fedcox.deployment import jobs
from fedcox.deployment.runs import RunFolder
from fedcox.reports.run_folder import read_run
from fedcox.study.simulation import clinical_study, write_simulation
from fedcox.study.study import Study

RESULT = Path("benchmarks/results/private_time.json")
#: A private fit may take so many times as long as a plain one.
MOST = 2.5


@dataclass(frozen=True)
class StudyTime:
    """One study: rounds as they are counted in a report, messages, and seconds."""

    private: bool
    rounds: int
    messages: int
    start: float
    seconds: float
    arrived: bool


@dataclass(frozen=True)
class Measured:
    """All studies of one run."""

    made: str
    cores: int
    centers: int
    patients: int
    studies: tuple[StudyTime, ...]

    def middle(self, *, private: bool) -> StudyTime:
        """The study of each kind that took neither least nor most time."""
        chosen = [each for each in self.studies if each.private is private]
        return sorted(chosen, key=lambda each: each.seconds)[len(chosen) // 2]

    @property
    def ratio(self) -> float:
        return self.middle(private=True).seconds / self.middle(private=False).seconds

    def lines(self) -> Iterator[str]:
        yield f"{self.centers} centers, {self.patients:,} patients, {self.cores} cores"
        for private in (False, True):
            each = self.middle(private=private)
            yield (
                f"{'private' if private else 'plain'}: {each.seconds:.2f} s, {each.rounds} "
                f"rounds in {each.messages} messages to each center"
            )
        start = statistics.median(each.start for each in self.studies)
        yield f"before that, to start the study's processes: {start:.1f} s"
        yield f"private over plain, at most {MOST}: {self.ratio:.2f}"
        yield f"every fit arrived: {all(each.arrived for each in self.studies)}"


def named(number: int, patients: int, *, private: bool) -> Study:
    """A study of its own: nothing of an earlier one is remembered for it."""
    tables = clinical_study().to_dict()
    tables["study"]["name"] = f"{'private' if private else 'plain'} {number}"
    noise: Any = {"price": 0.05, "patients": patients} if private else "none"
    return Study.from_dict({**tables, "privacy": {"secure_sums": private, "noise": noise}})


def measure(centers: int, patients: int, studies: int) -> Measured:
    """Start everything, run so many studies of each kind, end everything."""
    names = tuple(f"hospital_{number}" for number in range(1, centers + 1))
    simulated = simulate_hospitals(patients, centers, rng=np.random.default_rng(1))
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_simulation(folder / "patients", clinical_study(), simulated)
        with federation(folder, names) as home, jobs.session(home) as line:
            for number in range(2 * studies):
                until(lambda: len(line.connected()) == centers)
                private = number % 2 == 1
                begun, run = run_study(
                    home,
                    line,
                    named(number, patients, private=private),
                    meanwhile=lambda: approve_what_waits(folder, names),
                )
                found.append(_timed(run, begun, private=private))
                until(lambda: not any(job_left(folder / name) for name in names))
    today, cores = datetime.now(UTC).date().isoformat(), os.cpu_count() or 1
    return Measured(today, cores, centers, patients, tuple(found))


def _timed(run: RunFolder, begun: float, *, private: bool) -> StudyTime:
    told, fitted = told_by(run), read_run(run.result)
    exchanged = [each for each in told if each["kind"] == "exchange"]
    invited = max(place for place, each in enumerate(exchanged) if each["step"] == "study")
    done = next(each["at"] for each in told if each["kind"] == "done")
    began = [each["at"] - max(each["seconds"].values()) for each in exchanged]
    return StudyTime(
        private,
        fitted.rounds,
        len(exchanged) - invited,
        began[0] - begun,
        done - began[invited],
        fitted.converged,
    )


def main() -> None:
    """Measure, print, and keep the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--centers", type=int, default=5)
    parser.add_argument("--patients", type=int, default=15_000, help="over all centers")
    parser.add_argument("--studies", type=int, default=5, help="of each kind")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT}")
    given = parser.parse_args()
    found = measure(given.centers, given.patients, given.studies)
    for line in found.lines():
        print(line)
    if given.keep:
        stored = {"ratio": found.ratio, **asdict(found)}
        RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
