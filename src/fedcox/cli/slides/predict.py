"""`fedcox slides predict`: the risk of new slides and of their patients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say
from fedcox.cli.slides.options import ComputeDevice, ManifestFile, ModelFolder


def predict(
    model: ModelFolder,
    manifest: ManifestFile,
    features: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Features, reduced as those of the training were."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="The file to write.")],
    patient_score: Annotated[
        Literal["mean", "max", "concat"],
        typer.Option(
            help="Of several slides: the mean of their scores (the paper), the highest, or the "
            "score of all their tiles as one slide."
        ),
    ] = "mean",
    at: Annotated[
        list[float] | None,
        typer.Option(metavar="TIME", help="Also the chance to be free of the event; repeat."),
    ] = None,
    device: ComputeDevice = "cpu",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Score new slides: one line per slide, with its own score and its patient's risk.

    Scores are on the scale of the linear predictor; higher is worse. Features of another
    encoder or reducer than the model's are refused, slide by slide, and named in a file beside
    (scores-failures.csv); the others go on, and the exit status is then 1.

    Example: fedcox slides predict model slides.csv --features work/reduced --out scores.csv
    """
    from fedcox.cli.slides.progress import tell_left_out
    from fedcox.errors import OutputError
    from fedcox.files.writing import write_atomically
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.model import SlideModel, predictions

    if out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists already.", ["Choose another name, or say --overwrite."]
        )
    read, listed = SlideModel.read(model, device), SlideManifest.read(manifest)
    with progress_bar() as progress:
        task = progress.add_task("opening features", total=None)
        bags, faults = read.bags(listed.slides, features)
        progress.update(task, description=f"scoring {len(bags):,} slides")
        table = predictions(read, listed, bags, patient_score, at or [])
        write_atomically(out, table.to_csv(index=False))
    say(f"{len(bags):,} slides of {table['patient_id'].nunique():,} patients: {out}")
    left_out = dict.fromkeys(
        [name for name in listed.patients if name not in set(table["patient_id"])],
        "No slide that can be scored.",
    )
    tell_left_out(out, "predict", faults, left_out)
