"""R: `coxph.fit` of the survival package, the routine under `coxph` without its formula."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.contenders.contender import Measurement, Outcome
from benchmarks.patients import Patients
from benchmarks.problems import Problem

_SCRIPT = Path(__file__).with_suffix(".R")


def prepare(problem: Problem, patients: Patients) -> Callable[[], Outcome]:
    """Hand R the same bytes in a file; R times its own fit, after reading it."""

    def run() -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "patients.bin"
            with file.open("wb") as binary:
                patients.time.tofile(binary)
                patients.event.astype(np.float64).tofile(binary)
                patients.covariates.tofile(binary)
            size = [str(length) for length in patients.covariates.shape]
            printed = subprocess.run(
                ["Rscript", "--vanilla", str(_SCRIPT), str(file), *size],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        found = json.loads(printed)
        return Outcome(
            coefficients=found["coefficients"],
            standard_errors=found["standard_errors"],
            versions=found["versions"],
            measurement=Measurement(**found["measurement"]),
        )

    return run
