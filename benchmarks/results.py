"""One run as one line of JSON, and the best of several runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """One run of one contender on one problem, or the reason why there is none (`left_out`).

    `coefficient_difference` is the largest distance of a coefficient to the optimum,
    `standard_error_difference` the largest relative one; None without standard errors.
    """

    problem: str
    contender: str
    repeat: int
    repeats: int
    quick: bool
    seconds: float | None = None
    cpu_seconds: float | None = None
    extra_mib: float | None = None
    rounds: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    coefficient_difference: float | None = None
    standard_error_difference: float | None = None
    concordance: float | None = None
    left_out: str | None = None
    threads: int = 1
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost(self) -> float | None:
        """CPU seconds where known: a busy machine stretches wall time, and unevenly.

        Of several threads the wall time, which is what they are for.
        """
        return (
            self.seconds if self.cpu_seconds is None or self.threads > 1 else self.cpu_seconds
        )

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Result:
        return cls(**json.loads(line))


Results = Mapping[tuple[str, str], Result]  # by problem and contender


def read_results(file: Path) -> list[Result]:
    """Read every run of a stored file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Result.from_line(line) for line in lines if line.strip()]


def best_of_repeats(results: Iterable[Result]) -> Results:
    """Keep the cheapest run of each contender on each problem."""
    best: dict[tuple[str, str], Result] = {}
    for result in results:
        key = result.problem, result.contender
        if key not in best or _rank(result) < _rank(best[key]):
            best[key] = result
    return best


def _rank(result: Result) -> float:
    return float("inf") if result.cost is None else result.cost
