"""`python -m benchmarks.many_centers`: what a center costs in a round, from 10 to 10,000.

Each size is fitted in two ways: every center replies for itself, as between hospitals, and
centers are summed over in groups, as the in-process engine does where there are many.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

import fedcox
from benchmarks.child_process import run_module
from benchmarks.machine import describe_machine
from benchmarks.measure import measured, stay_on_cores, wake_memory
from benchmarks.patients import SEED, Patients, simulate
from benchmarks.problems import FOLLOW_UP_DAYS
from benchmarks.run import RESULTS
from benchmarks.tables import Table
from fedcox.files.writing import write_atomically
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
QUICK_SIZES = (10, 100)
PATIENTS, COLUMNS, INTERVALS = 100, 10, 10  # patients of one center
REPEATS = 6
#: The in-process engine sums over groups of centers where there are more than this.
FEW = 64
_LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class CenterCost:
    """One fit: what it took, and how far its coefficients are from those of one center.

    `apart` says that every center replied for itself.
    """

    centers: int
    apart: bool
    rounds: int
    seconds: float
    cpu_seconds: float
    extra_mib: float | None
    coefficient_difference: float
    repeat: int = 1
    patients: int = PATIENTS
    columns: int = COLUMNS
    intervals: int = INTERVALS
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def microseconds(self) -> float:
        """Of CPU time, per center and round; what a fit needs once is shared out as well."""
        return 1e6 * self.cpu_seconds / (self.centers * self.rounds)


def measure(centers: int, *, apart: bool, patients: int = PATIENTS) -> CenterCost:
    """Build the federation and fit, from the first question to standard errors.

    Imports and the patients themselves come before. The c-index, which compares all patients in
    this process and is no question to a center, is left out.
    """
    drawn = simulate(centers * patients, COLUMNS, np.random.default_rng(SEED))
    plan = _plan(drawn.column_names)
    parts = _parts(drawn, centers)
    warm_up = simulate(1000, COLUMNS, np.random.default_rng(SEED))
    estimate(plan, fedcox.InProcess.from_cohorts(_parts(warm_up, 10)))
    wake_memory(8 * drawn.covariates.nbytes / 2**20)
    found, cost = measured(
        lambda: estimate(plan, fedcox.InProcess.from_cohorts(parts, apart=apart))
    )
    pooled = estimate(plan, fedcox.InProcess.from_cohorts(_parts(drawn, 1)))
    difference = np.abs(found.inference.coefficients - pooled.inference.coefficients)
    return CenterCost(
        centers,
        apart,
        found.rounds,
        **asdict(cost),
        coefficient_difference=float(difference.max()),
        patients=patients,
        versions={"fedcox": version("fedcox")},
    )


def _plan(columns: Sequence[str]) -> Plan:
    return Plan.of(
        fedcox.Study(
            study={"name": "many centers"},
            outcome={"time": "time", "event": "event"},
            covariates=list(columns),
            grid={"width": FOLLOW_UP_DAYS / INTERVALS, "horizon": FOLLOW_UP_DAYS},
        )
    )


def _parts(drawn: Patients, centers: int) -> dict[str, fedcox.Cohort]:
    rows = np.array_split(np.arange(drawn.time.size), centers)
    return {
        f"center {number:05d}": fedcox.Cohort(
            drawn.covariates[part], drawn.time[part], drawn.event[part], part
        )
        for number, part in enumerate(rows)
    }


def run_all(sizes: Sequence[int], repeats: int, console: Console) -> Iterator[CenterCost]:
    """Run every size and way in turns, each in a process of its own.

    A machine that slows down for a minute slows all of them.
    """
    runs = [
        (repeat, centers, apart)
        for repeat in range(1, repeats + 1)
        for centers in sizes
        for apart in ((True, False) if centers > FEW else (True,))
    ]
    machine = describe_machine()
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(runs))
        for repeat, centers, apart in runs:
            progress.update(bar, description=f"{centers:,} centers")
            arguments = ["--one", str(centers), *(["--apart"] if apart else [])]
            printed = run_module(
                "benchmarks.many_centers", *arguments, limit_seconds=_LIMIT_SECONDS
            )
            found = json.loads(printed.splitlines()[-1])
            yield CenterCost(**found | {"repeat": repeat, "machine": machine})
            progress.advance(bar)


def read_costs(file: Path) -> list[CenterCost]:
    """Read every run of a stored file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [CenterCost(**json.loads(line)) for line in lines if line.strip()]


def best_costs(costs: Iterable[CenterCost]) -> list[CenterCost]:
    """Keep the cheapest run of each size and way, in the order of size."""

    def kind(cost: CenterCost) -> tuple[int, bool]:
        return cost.centers, not cost.apart

    return [
        min(runs, key=lambda cost: cost.cpu_seconds)
        for _, runs in groupby(sorted(costs, key=kind), key=kind)
    ]


def cost_table(costs: Sequence[CenterCost]) -> Table:
    """One row per size and way."""
    best = best_costs(costs)
    turns = max(cost.repeat for cost in costs)
    rows = [
        (
            f"{cost.centers:,}",
            "each for itself" if cost.apart else "in groups",
            f"{cost.rounds}",
            f"{cost.cpu_seconds:.3g}",
            f"{cost.microseconds:.0f}",
            "–" if cost.extra_mib is None else f"{cost.extra_mib:.0f}",
            f"{cost.coefficient_difference:.0e}",
        )
        for cost in best
    ]
    some = best[0]
    return Table(
        f"Centers of {some.patients} patients × {some.columns} covariates, {some.intervals} "
        f"intervals (best of {turns})",
        [
            "centers",
            "replies",
            "rounds",
            "CPU s",
            "µs per center and round",
            "extra MiB",
            "max coef. diff.",
        ],
        rows,
        ["max coef. diff.: to the fit of the same patients in one center."],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or show a stored run as a table or as a figure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_centers", description=main.__doc__
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    parser.add_argument("--out", type=Path, default=RESULTS / "many_centers.jsonl")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print a stored run")
    parser.add_argument(
        "--figure",
        type=Path,
        nargs=2,
        metavar=("FILE", "SVG"),
        help="draw a stored run",
    )
    parser.add_argument("--one", type=int, metavar="CENTERS", help="one fit, as JSON")
    parser.add_argument("--apart", action="store_true", help="with --one: no groups")
    given = parser.parse_args(arguments)
    if given.one is not None:
        stay_on_cores(1)
        print(json.dumps(asdict(measure(given.one, apart=given.apart))))
    elif given.markdown is not None:
        print(cost_table(read_costs(given.markdown)).markdown())
    elif given.figure is not None:
        from benchmarks.center_cost_figure import center_cost_svg

        file, svg = given.figure
        write_atomically(svg, center_cost_svg(read_costs(file)))
    else:
        _measure_all(given.out, QUICK_SIZES if given.quick else SIZES, given.repeats)
    return 0


def _measure_all(out: Path, sizes: Sequence[int], repeats: int) -> None:
    """Each run is written as soon as it is there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 150)
    with out.open("w", encoding="utf-8") as lines:
        for cost in run_all(sizes, repeats, console):
            lines.write(json.dumps(asdict(cost)) + "\n")
            lines.flush()
    cost_table(read_costs(out)).show(console)
    console.print(f"Written to {out}.", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
