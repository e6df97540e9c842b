"""`fedcox predict`: survival of new patients from a fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.terminal import progress_bar, say

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.study.fitted import FittedStudy


def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a fit, or its fit.json.")
    ],
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="New patients: CSV or Parquet.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="The file to write.")],
    at: Annotated[
        list[float] | None,
        typer.Option(
            metavar="TIME", help="Survival at this time; repeat. Default: a few round times."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Predict survival of new patients: log risk, median time, survival over time.

    The file needs the study's covariates and no outcome. A median that the
    follow-up does not reach stays empty. Each survival comes with the low and
    high end of its 95 % band.

    Example: fedcox predict run --data new.csv --at 365 --at 730 --out predicted.csv
    """
    from fedcox.data.cohort_file import read_table
    from fedcox.errors import OutputError
    from fedcox.files.writing import write_atomically
    from fedcox.reports.run_folder import read_run

    fitted = read_run(run)
    if out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists already.", ["Choose another name, or say --overwrite."]
        )
    with progress_bar() as progress:
        progress.add_task("predicting", total=None)
        table = predictions(fitted, read_table(data), at)
        write_atomically(out, table.to_csv(index=False))
    say(f"{len(table):,} patients written to {out}.")


def predictions(
    fitted: FittedStudy, patients: pd.DataFrame, at: list[float] | None
) -> pd.DataFrame:
    """One row per patient: identifier, log risk, median, survival at the times asked for."""
    import pandas as pd

    times = list(dict.fromkeys(at)) if at else _usual_times(fitted)
    _check_times(fitted, times)
    curves = fitted.predict_survival(patients, times)
    band = fitted.predict_survival_band(patients, times)
    identifier = fitted.study.schema.patient_id
    known = identifier is not None and identifier in patients.columns
    first = patients[identifier] if known else pd.Series(range(1, len(patients) + 1))
    columns = {
        identifier if known else "row": first.to_numpy(),
        "log_risk": fitted.predict_log_risk(patients).to_numpy(),
        "median": fitted.predict_median(patients).to_numpy(),
    }
    for place, time in enumerate(times):
        name = _survival_name(time)
        columns[name] = curves.iloc[:, place].to_numpy()
        if band is not None:
            for bound, side in zip(band, ("low", "high"), strict=True):
                columns[f"{name}_{side}"] = bound.iloc[:, place].to_numpy()
    return pd.DataFrame(columns)


def _survival_name(time: float) -> str:
    """All digits of the time: two event times must not share a column."""
    import numpy as np

    return f"survival_{np.format_float_positional(time, trim='-')}"


def _usual_times(fitted: FittedStudy) -> list[float]:
    """A few round times; in grouped time every interval's end."""
    if fitted.grouped:
        return [float(end) for end in fitted.interval_ends]
    return [row.time for row in fitted.risk_table if row.time > 0] or [fitted.horizon]


def _check_times(fitted: FittedStudy, times: list[float]) -> None:
    from fedcox.errors import InputError

    beyond = [time for time in times if not 0 <= time <= fitted.horizon * (1 + 1e-9)]
    if beyond:
        raise InputError(
            f"The fit follows patients up to {fitted.horizon:g} "
            f"{fitted.study.schema.time_unit}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
