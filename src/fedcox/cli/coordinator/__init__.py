"""`fedcox coordinator …`: the one machine that hospitals connect to."""

from __future__ import annotations

import typer

from fedcox.cli.coordinator.add_center import add_center
from fedcox.cli.coordinator.init import init
from fedcox.cli.coordinator.renew import renew
from fedcox.cli.coordinator.run import run
from fedcox.cli.coordinator.start import start
from fedcox.cli.coordinator.status import status
from fedcox.cli.coordinator.stop import stop

coordinator = typer.Typer(
    name="coordinator",
    no_args_is_help=True,
    help="""Run studies over hospitals on other machines.

    In this order: init, start, run. Send every hospital its kit, and tell it the password
    by telephone.
    """,
)
for command in (init, start, status, run, stop, add_center, renew):
    coordinator.command()(command)
