"""`fedcox slides …`: from a scanner's files to a survival model and a heatmap."""

from __future__ import annotations

import typer

from fedcox.cli.slides.features import embed, reduce
from fedcox.cli.slides.scores import heatmap, predict
from fedcox.cli.slides.tiles import inspect, segment, simulate, tile, train_unet
from fedcox.cli.slides.train import train

slides = typer.Typer(
    name="slides",
    no_args_is_help=True,
    help="""From whole slides to a survival model over hospitals, and to heatmaps.

    In this order, each inside its hospital: segment, tile, embed; then reduce and train over
    all of them; predict and heatmap. Each step skips what is done, and can be stopped and
    started again. Slides that cannot be used are named in WORK/failures.csv, and the others
    go on; the exit status is then 1.
    """,
)
for command in (simulate, segment, tile, embed, reduce, train, predict, heatmap, inspect):
    slides.command()(command)
slides.command("train-unet")(train_unet)
