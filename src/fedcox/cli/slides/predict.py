"""`fedcox slides predict`: the risk of new slides and of their patients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcox.cli.progress import progress_bar
from fedcox.cli.slides.options import ComputeDevice, ManifestFile

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.analysis.slide_model import SlideModel
    from fedcox.analysis.trained_network import PatientScore
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.opened_bag import OpenedBag
    from fedcox.survival.cohort import FloatArray


ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder that `fedcox slides train` wrote.")
]


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
    encoder or reducer than the model's are refused, slide by slide, and the others go on; the
    exit status is then 1.

    Example: fedcox slides predict model slides.csv --features work/reduced --out scores.csv
    """
    from fedcox.analysis.atomic_file import write_atomically
    from fedcox.analysis.slide_model import SlideModel
    from fedcox.errors import OutputError
    from fedcox.slides.manifest import SlideManifest

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
    typer.echo(f"{len(bags):,} slides of {table['patient_id'].nunique():,} patients: {out}")
    if faults:
        for slide_id, reason in faults.items():
            typer.echo(f"{slide_id}: not scored. {reason}", err=True)
        raise typer.Exit(1)


def predictions(
    model: SlideModel,
    manifest: SlideManifest,
    bags: dict[str, OpenedBag],
    patient_score: PatientScore,
    at: list[float],
) -> pd.DataFrame:
    """One row per slide; a patient's risk and survival stand in each of the own rows.

    The mean of every slide's tile scores is held against its score.
    """
    import pandas as pd

    from fedcox.analysis.tile_scores import check_mean

    network = model.network
    own = {
        patient: [row for row in rows if row.slide_id in bags]
        for patient, rows in manifest.patients.items()
    }
    own = {patient: rows for patient, rows in own.items() if rows}
    cohort = model.cohort([[bags[row.slide_id] for row in rows] for rows in own.values()])
    scores = network.slide_scores(cohort)
    risk = network.risk(cohort, patient_score)
    times = list(dict.fromkeys(at))
    survival = _survival(model, network.survival(cohort, patient_score), times)
    lines = []
    for place, (patient, rows) in enumerate(own.items()):
        for row, score in zip(rows, scores[place].tolist(), strict=True):
            tiles = model.tile_scores(bags[row.slide_id])
            check_mean(row.slide_id, tiles, score, network.setting.precision)
            lines.append(
                {
                    "patient_id": patient,
                    "center": row.center,
                    "slide_id": row.slide_id,
                    "tiles": tiles.size,
                    "slide_score": score,
                    "patient_risk": float(risk[place]),
                    **{
                        f"survival_{t:g}": float(survival[place, k])
                        for k, t in enumerate(times)
                    },
                }
            )
    return pd.DataFrame(lines)


def _survival(model: SlideModel, curves: FloatArray, at: list[float]) -> FloatArray:
    """Survival steps at interval ends: the value at the last one reached, one before that."""
    import numpy as np

    from fedcox.errors import InputError
    from fedcox.survival.step_function import steps_reached

    edges = model.network.edges
    beyond = [time for time in at if not 0 <= time <= edges[-1]]
    if beyond:
        raise InputError(
            f"The model follows patients up to {edges[-1]:g}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
    values = np.column_stack([np.ones(len(curves)), curves])
    return np.asarray(values[:, steps_reached(edges, np.array(at, dtype=np.float64))])
