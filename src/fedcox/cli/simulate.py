"""`fedcox simulate`: simulated hospitals with a known truth, ready for `fedcox fit`."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    import numpy as np

    from fedcox.analysis.study import Study
    from fedcox.data.synthetic import SimulatedTable


class Split(StrEnum):
    """The paper's two experiments: at random, or in order of follow-up time."""

    UNIFORM = "uniform"
    TIME = "time"


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT_DIR", help="The folder to write.")],
    centers: Annotated[int, typer.Option(min=1, help="Number of hospitals.")] = 5,
    patients: Annotated[int, typer.Option(min=1, help="Patients over all hospitals.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 1,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's generator (section 6.1) instead.")
    ] = False,
    covariates: Annotated[
        int, typer.Option(min=1, help="Number of covariates, with --paper.")
    ] = 200,
    split: Annotated[
        Split, typer.Option(help="How patients lie in the hospitals, with --paper.")
    ] = Split.UNIFORM,
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
    from fedcox.data.synthetic import simulate_hospitals

    check_folder(out, overwrite=overwrite)
    with progress_bar() as progress:
        task = progress.add_task("simulating patients", total=centers + 3)
        rng = np.random.default_rng(seed)
        if paper:
            study = paper_study(covariates)
            simulated = _as_in_the_paper(patients, covariates, centers, split, rng)
        else:
            study = clinical_study()
            simulated = simulate_hospitals(patients, centers, rng=rng)
        progress.advance(task)

        def wrote(name: str) -> None:
            progress.update(task, advance=1, description=f"wrote {name}")

        write_simulation(out, study, simulated, overwrite=overwrite, wrote=wrote)
    _show(out, study, simulated)


def _as_in_the_paper(
    patients: int, columns: int, centers: int, split: Split, rng: np.random.Generator
) -> SimulatedTable:
    from fedcox.data.center_split import split_by_value, split_uniformly
    from fedcox.data.synthetic import paper_table, simulate_paper_cohort

    simulated = simulate_paper_cohort(patients, columns, rng=rng)
    if split is Split.TIME:
        return paper_table(simulated, split_by_value(simulated.cohort.time, centers))
    return paper_table(simulated, split_uniformly(patients, centers, rng=rng))


def _show(out: Path, study: Study, simulated: SimulatedTable) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table("hospital", title=escape(study.name), title_justify="left")
    table.add_column("patients", justify="right")
    table.add_column("events", justify="right")
    for name, patients in simulated.frame.groupby("hospital", sort=True):
        table.add_row(str(name), f"{len(patients):,}", f"{int(patients['status'].sum()):,}")
    console.print(table)
    words = ["fedcox", "fit", out / "study.toml", "--data", out / "all.csv"]
    words += ["--center-column", "hospital", "--out", f"{out}-run"]
    command = shlex.join(str(word) for word in words)
    console.print(f"Written to {escape(str(out))}. Next:", soft_wrap=True)
    console.print(f"  {escape(command)}", soft_wrap=True, highlight=False)
