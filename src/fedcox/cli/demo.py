"""`fedcox demo`: five simulated hospitals, fitted and reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedcox.data.synthetic import SimulatedTable
    from fedcox.study.fitted import FittedStudy


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

    from fedcox.cli.fit import fit_shown
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
    fitted = replace(fit_shown(study, files, None), command=f"fedcox demo --seed {seed}")
    write_run(fitted, run, overwrite=overwrite)
    _show(simulated, fitted, run / "report.html")


def _show(simulated: SimulatedTable, fitted: FittedStudy, page: Path) -> None:
    """What was simulated, what was found, and the truth below it."""
    import numpy as np

    from fedcox.cli.fit import show
    from fedcox.cli.terminal import Terminal

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
