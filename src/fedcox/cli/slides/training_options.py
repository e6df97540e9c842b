"""Options of `fedcox slides train`: outcomes, time, network, solver, noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

PatientsFile = Annotated[
    Path,
    typer.Option(metavar="PATIENTS.csv", help="One line per patient: patient_id, time, event."),
]
ReducedFolder = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="Reduced features: WORK/reduced, one file each."),
]
TimeColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column of follow-up.")]
EventColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the event.")]
EventValue = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="What stands for the event. Default: 1, true, yes."),
]
Width = Annotated[
    float | None,
    typer.Option(
        metavar="Q",
        help="Width of the intervals, in the unit of time. Default with --link log: pieces "
        "where the events are. cloglog, logit and --epsilon need one.",
    ),
]
Horizon = Annotated[
    float | None,
    typer.Option(metavar="TIME", help="End of follow-up. Default: the centers agree on one."),
]
Link = Annotated[
    Literal["log", "cloglog", "logit"],
    typer.Option(help="log: exact time at risk. The others group time; logit is the paper's."),
]
Balanced = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--no-balanced",
        help="Weigh events as much as all else, as in the paper. Default: yes, but not "
        "under --epsilon. With --link log it makes no difference.",
    ),
]
Solver = Annotated[
    Literal["adam", "fedavg"],
    typer.Option(help="adam: a round for each batch, as if pooled. fedavg: local epochs."),
]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the patients.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Patients of a step.")]
LearningRate = Annotated[float, typer.Option(help="Adam's step size.")]
LocalEpochs = Annotated[
    int, typer.Option(min=1, help="Of fedavg: epochs at a center in each round.")
]
Validation = Annotated[
    float,
    typer.Option(
        min=0.0, max=0.9, metavar="SHARE", help="Patients to judge by and not to train on."
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="With --validation: stop after N epochs without a gain."
    ),
]
Hidden = Annotated[int, typer.Option(min=1, help="Units of the hidden layer.")]
SlideWeight = Annotated[
    Literal["slide", "patient"],
    typer.Option(help="Every slide counts once (the paper), or every patient."),
]
SecureSums = Annotated[
    bool,
    typer.Option("--secure-sums", help="Only sums over centers are seen, under masks."),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Train under patient-level differential privacy; needs --delta."),
]
Delta = Annotated[float | None, typer.Option(help="Of the guarantee, such as 1e-5.")]
PlannedPatients = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Under --epsilon: about how many, a public number."),
]
Steps = Annotated[int, typer.Option(min=1, help="Under --epsilon: rounds in all.")]
Clip = Annotated[
    float, typer.Option(help="Under --epsilon: the most one patient's gradient counts.")
]
Precision = Annotated[
    Literal["float32", "float64", "bfloat16"] | None,
    typer.Option(
        help="Of products over tiles. Default: bfloat16 on cuda, which is many times as quick, "
        "else float32."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Decides whatever is drawn.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Keep the training here after every epoch, and go on from it."
    ),
]
