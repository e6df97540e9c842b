"""`fedcox simulate`: simulated hospitals with a known truth, ready for `fedcox fit`."""

from __future__ import annotations

import shlex
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    from fedcox.analysis.study import Study
    from fedcox.data.synthetic import SimulatedTable


class Split(StrEnum):
    """The paper's two – at random, in order of follow-up time – and two more."""

    UNIFORM = "uniform"
    TIME = "time"
    COVARIATE = "covariate"
    DIRICHLET = "dirichlet"


class Bound(StrEnum):
    """Up to whose median survival censoring times reach: the paper can be read both ways."""

    PATIENT = "patient"
    POPULATION = "population"


_PATIENTS = 1500
_PATIENTS_PER_HOSPITAL = 20
_COVARIATES = 200
_SPLIT = Split.UNIFORM
_CONCENTRATION = 0.5
_CENSORING = Bound.PATIENT


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT_DIR", help="The folder to write.")],
    centers: Annotated[int, typer.Option(min=1, help="Number of hospitals.")] = 5,
    patients: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Patients over all hospitals; default: {_PATIENTS}, or "
            f"{_PATIENTS_PER_HOSPITAL} for each hospital where that is more.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 1,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's generator (section 6.1) instead.")
    ] = False,
    covariates: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Number of covariates, with --paper; default: {_COVARIATES}."
        ),
    ] = None,
    split: Annotated[
        Split | None,
        typer.Option(
            help="How patients lie in the hospitals, with --paper: at random, in order of "
            "time, of the first covariate, or unevenly by time (see --concentration); "
            f"default: {_SPLIT.value}."
        ),
    ] = None,
    concentration: Annotated[
        float | None,
        typer.Option(
            help="Of --paper --split dirichlet: the smaller, the more uneven; default: "
            f"{_CONCENTRATION}."
        ),
    ] = None,
    censoring: Annotated[
        Bound | None,
        typer.Option(
            help="With --paper: censored up to each patient's own median survival, or up to "
            f"one; default: {_CENSORING.value}."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a simulation that is there already.")
    ] = False,
) -> None:
    """Simulate hospitals: study.toml, one CSV file per hospital, and all.csv.

    Nobody in these files is a patient. The true log hazard ratios stand at
    the top of study.toml.

    Example: fedcox simulate hospitals --centers 5 --patients 1500 --seed 1
    """
    import numpy as np

    from fedcox.analysis.simulation import (
        check_folder,
        clinical_study,
        paper_study,
        write_simulation,
    )
    from fedcox.data.center_split import split_cohort
    from fedcox.data.synthetic import (
        paper_table,
        simulate_hospitals,
        simulate_paper_cohort,
    )

    of_paper = {"--covariates": covariates, "--split": split, "--censoring": censoring}
    _refuse_idle(
        [] if paper else [name for name, value in of_paper.items() if value is not None],
        concentration is not None and not (paper and split is Split.DIRICHLET),
    )
    check_folder(out, overwrite=overwrite)
    begun = time.perf_counter()
    everyone = patients or max(_PATIENTS, _PATIENTS_PER_HOSPITAL * centers)
    with progress_bar() as progress:
        task = progress.add_task("simulating patients", total=centers + 3)
        rng = np.random.default_rng(seed)
        if paper:
            columns = covariates or _COVARIATES
            study = paper_study(columns)
            drawn = simulate_paper_cohort(
                everyone, columns, rng=rng, censoring_bound=(censoring or _CENSORING).value
            )
            hospital = split_cohort(
                drawn.cohort,
                centers,
                (split or _SPLIT).value,
                rng=rng,
                concentration=_CONCENTRATION if concentration is None else concentration,
            )
            simulated = paper_table(drawn, hospital)
        else:
            study = clinical_study()
            simulated = simulate_hospitals(everyone, centers, rng=rng)
        progress.advance(task)

        def wrote(name: str) -> None:
            progress.update(task, advance=1, description=f"wrote {name}")

        write_simulation(out, study, simulated, overwrite=overwrite, wrote=wrote)
    _show(out, study, simulated)
    _show_cost(out, time.perf_counter() - begun)


def _refuse_idle(without_paper: list[str], concentration: bool) -> None:
    """An option that would change nothing is a misunderstanding: say so, all at once."""
    from fedcox.data.wording import counted, listed
    from fedcox.errors import InputError

    faults = []
    if without_paper:
        faults.append(f"{listed(without_paper)}: needed is --paper as well.")
    if concentration:
        faults.append("--concentration: needed are --paper and --split dirichlet as well.")
    if faults:
        options = counted(len(without_paper) + concentration, "option")
        raise InputError(
            f"{options} would change nothing.", [*faults, "Leave out what you do not need."]
        )


def _show(out: Path, study: Study, simulated: SimulatedTable) -> None:
    """The hospitals, where there are many the largest ones, and how to go on."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedcox.analysis.fitted import CenterRow
    from fedcox.reports.center_choice import choose_centers

    counts = simulated.frame.groupby("hospital", sort=True)["status"].agg(["size", "sum"])
    hospitals = [
        CenterRow(str(name), int(size), int(events))
        for name, size, events in counts.itertuples()
    ]
    choice = choose_centers(hospitals)
    rows = [(row.name, row.patients or 0, row.events or 0) for row in choice.shown]
    if choice.rest:
        rest = [(row.patients or 0, row.events or 0) for row in choice.rest]
        rows.append((choice.rest_name, sum(n for n, _ in rest), sum(n for _, n in rest)))
    console = Console()
    table = Table("hospital", title=escape(study.name), title_justify="left")
    table.add_column("patients", justify="right")
    table.add_column("events", justify="right")
    for name, patients, events in rows:
        table.add_row(name, f"{patients:,}", f"{events:,}")
    console.print(table)
    words = ["fedcox", "fit", out / "study.toml", "--data", out / "all.csv"]
    words += ["--center-column", "hospital", "--out", f"{out}-run"]
    command = shlex.join(str(word) for word in words)
    console.print(f"Written to {escape(str(out))}. Next:", soft_wrap=True)
    console.print(f"  {escape(command)}", soft_wrap=True, highlight=False)


def _show_cost(out: Path, seconds: float) -> None:
    """How large, how long, and how much memory: what ten times as many would take."""
    from rich.console import Console

    from fedcox.reports.number_text import bytes_text, noun_text

    sizes = [file.stat().st_size for file in out.iterdir()]
    told = f"{noun_text(len(sizes), 'file')}, {bytes_text(sum(sizes))}, in {seconds:.1f} s"
    peak = _peak_memory()
    if peak is not None:
        told += f"; {bytes_text(peak)} of memory at most"
    Console().print(f"{told}.", soft_wrap=True, highlight=False)


def _peak_memory() -> int | None:
    """Bytes that this process held at most, where the system counts them."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
