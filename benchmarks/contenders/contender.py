"""What a contender is: the same signature for every library, ours included."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version

from benchmarks.patients import Patients
from benchmarks.problems import Problem
from benchmarks.reference import Model


@dataclass(frozen=True)
class Measurement:
    """Cost of one fit; `extra_mib` is its peak memory beyond what was resident before.

    None where this system does not say.
    """

    seconds: float
    cpu_seconds: float
    extra_mib: float | None


@dataclass(frozen=True)
class Outcome:
    """What one run found. None: the contender has no such thing."""

    coefficients: list[float] | None = None
    standard_errors: list[float] | None = None
    concordance: float | None = None
    rounds: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    measurement: Measurement | None = None

    def measured(self, measurement: Measurement) -> Outcome:
        return replace(self, measurement=measurement)


@dataclass(frozen=True)
class Contender:
    """A library that can solve a problem.

    `prepare` brings the patients into the library's own format; the function it returns is
    what is timed. `model` names the optimum its coefficients should be, or be near. A contender
    with a `program` runs that in a process of its own, and measures itself there. One with
    several `threads` has as many cores.
    """

    label: str
    prepare: Callable[[Problem, Patients], Callable[[], Outcome]]
    distribution: str | None = None
    program: str | None = None
    model: Model | None = None
    threads: int = 1

    def reference(self, problem: Problem) -> Model | None:
        """Name the optimum to compare with.

        With every event time the discrete model is held against Cox's, which it approaches.
        """
        if self.model is not None and problem.intervals is None:
            return "cox"
        return self.model

    def unavailable(self) -> str | None:
        """Say why it cannot run here; None if it can."""
        if self.program is not None and shutil.which(self.program) is None:
            return f"{self.program} not found"
        try:
            self.versions()
        except PackageNotFoundError:
            return f"{self.distribution} not installed"
        return None

    def versions(self) -> dict[str, str]:
        return (
            {} if self.distribution is None else {self.distribution: version(self.distribution)}
        )
