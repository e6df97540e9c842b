"""`fedcox simulate`: simulated hospitals with a known truth, ready for `fedcox fit`."""

from __future__ import annotations

import shlex
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
        Split,
        typer.Option(
            help="How patients lie in the hospitals, with --paper: at random, in order of "
            "time, of the first covariate, or unevenly by time (see --concentration)."
        ),
    ] = Split.UNIFORM,
    concentration: Annotated[
        float, typer.Option(help="Of --split dirichlet: the smaller, the more uneven.")
    ] = 0.5,
    censoring: Annotated[
        Bound,
        typer.Option(help="Censored up to each patient's own median survival, or up to one."),
    ] = Bound.PATIENT,
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

    check_folder(out, overwrite=overwrite)
    with progress_bar() as progress:
        task = progress.add_task("simulating patients", total=centers + 3)
        rng = np.random.default_rng(seed)
        if paper:
            study = paper_study(covariates)
            drawn = simulate_paper_cohort(
                patients, covariates, rng=rng, censoring_bound=censoring.value
            )
            hospital = split_cohort(
                drawn.cohort, centers, split.value, rng=rng, concentration=concentration
            )
            simulated = paper_table(drawn, hospital)
        else:
            study = clinical_study()
            simulated = simulate_hospitals(patients, centers, rng=rng)
        progress.advance(task)

        def wrote(name: str) -> None:
            progress.update(task, advance=1, description=f"wrote {name}")

        write_simulation(out, study, simulated, overwrite=overwrite, wrote=wrote)
    _show(out, study, simulated)


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
