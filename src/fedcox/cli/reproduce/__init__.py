"""`fedcox reproduce …`: the paper's experiments, each from one command."""

from __future__ import annotations

import typer

from fedcox.cli.reproduce.appendix_a import appendix_a
from fedcox.cli.reproduce.communication import communication
from fedcox.cli.reproduce.compression import compression
from fedcox.cli.reproduce.privacy import privacy
from fedcox.cli.reproduce.slides import slides
from fedcox.cli.reproduce.synthetic import synthetic
from fedcox.cli.reproduce.tcga import tcga

reproduce = typer.Typer(
    name="reproduce",
    no_args_is_help=True,
    help="""Rerun the paper: schemes on simulated patients and on TCGA, messages, appendix A.

    Each writes a folder with its numbers and a page to read. `--quick` takes about a minute
    and shows the same picture at a smaller size.
    """,
)
for command in (synthetic, tcga, communication, appendix_a, compression, privacy, slides):
    reproduce.command()(command)
