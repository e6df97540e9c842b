"""`fedcox simulate` and `demo`: simulated hospitals with a known truth, and a fit over them."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from fedcox.cli.options import to_replace
from fedcox.cli.terminal import Terminal, progress_bar
from fedcox.study.simulation_choice import (
    CENSORING,
    CONCENTRATION,
    COVARIATES,
    PATIENTS,
    PATIENTS_PER_HOSPITAL,
    SPLIT,
)

if TYPE_CHECKING:
    from fedcox.data.synthetic import SimulatedTable
    from fedcox.study.fitted import FittedStudy
    from fedcox.study.study import Study


#: The paper's two – at random, in order of follow-up time – and two more.
Split = Literal["uniform", "time", "covariate", "dirichlet"]
#: Up to whose median survival censoring times reach: the paper can be read both ways.
Bound = Literal["patient", "population"]
Patients = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Patients over all hospitals; default: {PATIENTS}, or "
        f"{PATIENTS_PER_HOSPITAL} for each hospital where that is more.",
    ),
]
Covariates = Annotated[
    int | None,
    typer.Option(min=1, help=f"Number of covariates, with --paper; default: {COVARIATES}."),
]
SplitName = Annotated[
    Split | None,
    typer.Option(
        help="How patients lie in the hospitals, with --paper: at random, in order of "
        "time, of the first covariate, or unevenly by time (see --concentration); "
        f"default: {SPLIT}."
    ),
]
Concentration = Annotated[
    float | None,
    typer.Option(
        help="Of --paper --split dirichlet: the smaller, the more uneven; default: "
        f"{CONCENTRATION}."
    ),
]
CensoringBound = Annotated[
    Bound | None,
    typer.Option(
        help="With --paper: censored up to each patient's own median survival, or up to "
        f"one; default: {CENSORING}."
    ),
]


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT_DIR", help="The folder to write.")],
    centers: Annotated[int, typer.Option(min=1, help="Number of hospitals.")] = 5,
    patients: Patients = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 1,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's generator (section 6.1) instead.")
    ] = False,
    covariates: Covariates = None,
    split: SplitName = None,
    concentration: Concentration = None,
    censoring: CensoringBound = None,
    overwrite: Annotated[bool, to_replace("a simulation")] = False,
) -> None:
    """Simulate hospitals: study.toml, one CSV file per hospital, and all.csv.

    Nobody in these files is a patient. The true log hazard ratios stand at
    the top of study.toml.

    Example: fedcox simulate hospitals --centers 5 --patients 1500 --seed 1
    """
    from fedcox.study.simulation import check_folder, write_simulation
    from fedcox.study.simulation_choice import PaperChoice, SimulationChoice

    of_paper = PaperChoice(covariates, split, concentration, censoring)
    choice = SimulationChoice(centers, patients, seed, paper=paper, of_paper=of_paper)
    check_folder(out, overwrite=overwrite)
    begun = time.perf_counter()
    with progress_bar() as progress:
        task = progress.add_task("simulating patients", total=centers + 3)
        study, simulated = choice.drawn()
        progress.advance(task)

        def wrote(name: str) -> None:
            progress.update(task, advance=1, description=f"wrote {name}")

        write_simulation(out, study, simulated, overwrite=overwrite, wrote=wrote)
    _show(out, study, simulated)
    _show_cost(out, time.perf_counter() - begun)


def _show(out: Path, study: Study, simulated: SimulatedTable) -> None:
    """The hospitals, and how to go on."""
    from fedcox.reports.counts_figure import simulation_table

    console = Terminal()
    console.print(simulation_table(study, simulated))
    words = ["fedcox", "fit", out / "study.toml", "--data", out / "all.csv"]
    words += ["--center-column", "hospital", "--out", f"{out}-run"]
    command = shlex.join(str(word) for word in words)
    console.print(f"Written to {escape(str(out))}. Next:", soft_wrap=True)
    console.print(f"  {escape(command)}", soft_wrap=True, highlight=False)


def _show_cost(out: Path, seconds: float) -> None:
    """How large, how long, and how much memory: what ten times as many would take."""
    from fedcox.reports.number_text import bytes_text, noun_text

    sizes = [file.stat().st_size for file in out.iterdir()]
    line = f"{noun_text(len(sizes), 'file')}, {bytes_text(sum(sizes))}, in {seconds:.1f} s"
    peak = _peak_memory()
    if peak is not None:
        line += f"; {bytes_text(peak)} of memory at most"
    Terminal().print(f"{line}.", soft_wrap=True, highlight=False)


def _peak_memory() -> int | None:
    """Bytes that this process held at most, where the system counts them."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where to write.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other patients.")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier demo in that folder.")
    ] = False,
) -> None:
    """Simulate five hospitals, fit a study over them, print the ratios, write the report.

    The patients are simulated, so the true hazard ratios are known; they
    stand below the estimates.

    Example: fedcox demo --out demo
    """
    from dataclasses import replace

    import numpy as np

    from fedcox.cli.fit import fit_with_progress
    from fedcox.data.synthetic import simulate_hospitals
    from fedcox.reports.run_folder import check_run_folder, write_run
    from fedcox.study.simulation import check_folder as check_simulation
    from fedcox.study.simulation import clinical_study, write_simulation

    data, run = out / "hospitals", out / "run"
    check_simulation(data, overwrite=overwrite)
    check_run_folder(run, overwrite=overwrite)
    simulated = simulate_hospitals(1500, 5, rng=np.random.default_rng(seed))
    write_simulation(data, clinical_study(), simulated, overwrite=overwrite)
    files = {path.stem: path for path in sorted(data.glob("hospital_*.csv"))}
    study = clinical_study()
    fitted = replace(
        fit_with_progress(study, files, None), command=f"fedcox demo --seed {seed}"
    )
    _show_demo(simulated, write_run(fitted, run, overwrite=overwrite), run / "report.html")


def _show_demo(simulated: SimulatedTable, fitted: FittedStudy, page: Path) -> None:
    """What was simulated, what was found, and the truth below it."""
    import numpy as np

    from fedcox.cli.fit import show

    Terminal().print(
        f"Five simulated hospitals, {len(simulated.frame):,} simulated patients, one process. "
        "Every sum that the fit asked for is listed in ledger.jsonl.\n",
        soft_wrap=True,
    )
    show(fitted, page)
    truth = ", ".join(
        f"{name} {np.exp(value):.3g}" for name, value in simulated.log_hazard_ratios.items()
    )
    Terminal().print(f"The simulation's true hazard ratios: {truth}.", soft_wrap=True)
