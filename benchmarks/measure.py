"""One contender on one problem, alone in a process: seconds, CPU seconds, extra memory."""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.contenders.contender import Measurement, Outcome
from benchmarks.patients import Patients, read_patients
from benchmarks.problems import PROBLEMS, Problem

Found = TypeVar("Found")

_WARM_UP_PATIENTS = 1000
_WOKEN = 4  # times the covariates' own memory
_STATUS = Path("/proc/self/status")


def measure(contender: Contender, problem: Problem, patients: Patients) -> Outcome:
    """Fit once, with imports and the library's own input format made beforehand."""
    wake_memory(problem.covariate_mib * _WOKEN)
    if contender.program is None:
        # Imports that a library puts off until its first fit are no part of the fit.
        contender.prepare(problem, patients.first(_WARM_UP_PATIENTS))()
    run = contender.prepare(problem, patients)
    outcome, measurement = measured(run)
    if problem.task == "training":
        # Training ends before the optimum: how well it ranks says whether it trained at all.
        outcome = replace(outcome, concordance=_concordance(outcome, patients))
    return outcome if outcome.measurement else outcome.measured(measurement)


def _concordance(outcome: Outcome, patients: Patients) -> float | None:
    from fedcox.survival.concordance import concordance_index
    from fedcox.survival.scaling import linear_predictor

    risk = linear_predictor(patients.covariates, np.array(outcome.coefficients))
    return concordance_index(patients.time, patients.event, risk).index


def measured(run: Callable[[], Found]) -> tuple[Found, Measurement]:
    """Run once, and say what it took."""
    gc.collect()
    _forget_peak()
    resident, _ = _memory_mib()
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    _, peak = _memory_mib()
    return found, Measurement(wall, cpu, max(0.0, peak - resident))


def wake_memory(mib: float) -> None:
    """Use memory once and give it back.

    A virtual machine gets memory from its host when it first touches it, at ten times the cost
    of any later use; whoever ran first after a pause would pay for everybody.
    """
    np.ones(int(mib * 2**20 / 8))


def _forget_peak() -> None:
    """Lower the kernel's high-water mark to what is resident now, where it can be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _memory_mib() -> tuple[float, float]:
    """Resident memory now and at its peak.

    From the kernel's status file where there is one: `ru_maxrss` survives the start of a new
    program, so a child of a large process would begin with the size of its parent.
    """
    if not _STATUS.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return peak, peak
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    resident, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return resident, peak


def stay_on_cores(count: int) -> None:
    """Keep every thread of this process, however started, on so many cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("problem", choices=sorted(PROBLEMS))
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    problem = PROBLEMS[given.problem]
    problem = problem.quick() if given.quick else problem
    contender = CONTENDERS[given.contender]
    stay_on_cores(contender.threads)
    patients = read_patients(given.folder, with_covariates=problem.task != "concordance")
    outcome = measure(contender, problem, patients)
    versions = {**contender.versions(), **outcome.versions}
    print(json.dumps({**asdict(outcome), "versions": versions}))


if __name__ == "__main__":
    main()
