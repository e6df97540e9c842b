"""`fedcox slides simulate`: simulated slides with a planted signal, through no scanner."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say

_FILES = ("slides", "slides.csv", "patients.csv", "planted.json")


def simulate(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder to write.")],
    patients: Annotated[int, typer.Option(min=1, help="Patients over all centers.")] = 60,
    centers: Annotated[int, typer.Option(min=1, help="Number of centers, unequal.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
    size_px: Annotated[
        int, typer.Option(min=256, max=20_000, metavar="PIXELS", help="A slide's side.")
    ] = 1024,
    mpp: Annotated[
        float,
        typer.Option(min=0.1, max=4.0, metavar="MICROMETRES", help="Micrometres per pixel."),
    ] = 1.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a simulation that is there already.")
    ] = False,
) -> None:
    """Simulate slides: real pyramids on the disk, slides.csv, patients.csv, planted.json.

    Nobody in these files is a patient. Regions of another texture raise the
    hazard; planted.json says where they are.

    Example: fedcox slides simulate --out simulated --patients 60 --centers 3
    """
    from fedcox.files.writing import check_folder, whole_folder
    from fedcox.slides.simulated_slides import simulate_slides

    check_folder(
        out, overwrite=overwrite, is_ours=lambda path: path.name in _FILES, what="simulation"
    )
    with progress_bar() as progress, whole_folder(out) as folder:
        task = progress.add_task("drawing slides", total=None)

        def wrote(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        made = simulate_slides(
            folder, patients, centers, seed, size_px=size_px, mpp=mpp, wrote=wrote
        )
    say(f"{out}: {len(made.planted):,} simulated slides of {patients:,} simulated patients.")
    words = ["fedcox", "slides", "segment", str(out / "slides.csv"), "--work", f"{out}-work"]
    say(f"Next: {shlex.join(words)}")
