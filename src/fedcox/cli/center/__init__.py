"""`fedcox center …`: what a hospital runs."""

from __future__ import annotations

import typer

from fedcox.cli.center.approve import approve
from fedcox.cli.center.join import join
from fedcox.cli.center.log import log
from fedcox.cli.center.start import start

center = typer.Typer(
    name="center",
    no_args_is_help=True,
    help="""Take part in studies; the patients stay here.

    Once: join, with the kit that the coordinator sent. Then start, for as long as studies
    run. Nothing is answered before the data manager has approved a study.
    """,
)
for command in (join, start, approve, log):
    center.command()(command)
