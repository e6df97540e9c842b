"""`fedcox --help` is the manual; commands that belong together share a module."""

from __future__ import annotations

import sys

import typer
from rich.text import Text

from fedcox.cli.audit import audit
from fedcox.cli.center import center
from fedcox.cli.check import check
from fedcox.cli.coordinator import coordinator
from fedcox.cli.doctor import doctor
from fedcox.cli.evaluate import evaluate
from fedcox.cli.fit import fit, predict, report
from fedcox.cli.plan import plan
from fedcox.cli.reproduce import reproduce
from fedcox.cli.simulate import demo, simulate
from fedcox.cli.slides import slides
from fedcox.cli.terminal import Terminal, say
from fedcox.errors import InputError

app = typer.Typer(
    name="fedcox",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Survival analysis on patients who never leave their hospitals.

    Start with `fedcox demo`. A study is one TOML file, the same for every hospital; each
    hospital checks its own file with `fedcox check`, and `fedcox fit` gives hazard ratios
    over all of them. Between hospitals on machines of their own, `fedcox coordinator` and
    `fedcox center` do the same.
    """,
)
for command in (demo, simulate, check, plan, fit, predict, evaluate, audit, report, doctor):
    app.command()(command)
for group in (coordinator, center, slides, reproduce):
    app.add_typer(group)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        say(f"fedcox {version('fedcox')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """Options of every command."""


def main() -> None:
    """Run a command; wrong input is told in words and ends with status 2."""
    try:
        app()
    except InputError as error:
        _tell(error)
        sys.exit(2)


def _tell(error: InputError) -> None:
    console = Terminal(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("Error: ", "bold red"), error.subject))
    for fault in error.faults:
        console.print(Text(f"  • {fault}"))


if __name__ == "__main__":
    main()
