"""`fedcox slides train-unet`: a U-Net that finds tissue, from masks of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say


def train_unet(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES", help="A folder of pictures, such as `segment --overviews` writes."
        ),
    ],
    masks: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Masks of the same names and sizes, white where tissue is."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE.safetensors", help="The file to write.")
    ],
    mask_um: Annotated[
        float,
        typer.Option(
            min=4.0,
            max=100.0,
            metavar="MICROMETRES",
            help="Micrometres per pixel of the pictures.",
        ),
    ] = 8.0,
    steps: Annotated[int, typer.Option(min=1, help="Steps of four crops each.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and crops.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Train a U-Net to find tissue, for `fedcox slides segment --unet`.

    Worth it where Otsu's threshold errs: pale stains, pen marks, dirt. Correct
    some of its masks by hand, on the overviews, and train on them.

    Example: fedcox slides train-unet work/overviews --masks corrected --out unet.safetensors
    """
    from fedcox.errors import OutputError, needs_extra

    try:
        from fedcox.slides.unet import read_pairs, write_unet
        from fedcox.slides.unet import train_unet as train
    except ImportError as error:
        raise needs_extra("torch", "slides") from error
    if out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists already.", ["Choose another name, or say --overwrite."]
        )
    pictures, truths = read_pairs(images, masks)
    last = [float("nan")]
    with progress_bar() as progress:
        task = progress.add_task("training", total=steps)

        def watch(step: int, loss: float) -> None:
            last[0] = loss
            progress.update(task, completed=step, description=f"training, loss {loss:.4f}")

        network = train(pictures, truths, steps=steps, seed=seed, watch=watch)
    write_unet(out, network, mask_um)
    say(f"{out}: trained on {len(pictures):,} pictures; loss at the end {last[0]:.4f}.")
