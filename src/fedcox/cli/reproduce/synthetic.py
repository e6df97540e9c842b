"""`fedcox reproduce synthetic`: learning schemes on simulated patients."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcox.cli.reproduce.options import Out, Overwrite, Quick, Resume, Workers
from fedcox.cli.reproduce.panels import run_panels
from fedcox.cli.simulate import Bound


def synthetic(
    out: Out,
    quick: Quick = False,
    censoring: Annotated[
        Bound,
        typer.Option(help="Censored up to each patient's own median survival, or up to one."),
    ] = Bound.PATIENT,
    workers: Workers = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Section 6.1, figure 2: simulated patients, split at random and by time.

    The paper's sizes are 5000 patients with 200 covariates in five centers,
    20 runs of 5 folds.

    fedcox reproduce synthetic --quick --out synthetic
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():  # numpy reads the setting when it is loaded, which is below
        from fedcox.paper.synthetic import synthetic as of_the_paper

        reproduction = of_the_paper(quick=quick, bound=censoring.value)
        run_panels(reproduction, out, workers=workers, resume=resume, overwrite=overwrite)
