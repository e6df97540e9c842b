"""`fedcox predict`: survival of new patients from a fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.analysis.fitted import FittedStudy


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
            metavar="TIME", help="Survival at this time; repeat. Default: interval ends."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Predict survival of new patients: log risk, median time, survival over time.

    The file needs the study's covariates and no outcome. A median that the
    follow-up does not reach stays empty.

    Example: fedcox predict run --data new.csv --at 365 --at 730 --out predicted.csv
    """
    from fedcox.analysis.atomic_file import write_atomically
    from fedcox.data.cohort_file import read_table
    from fedcox.errors import OutputError
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
    typer.echo(f"{len(table):,} patients written to {out}.")


def predictions(
    fitted: FittedStudy, patients: pd.DataFrame, at: list[float] | None
) -> pd.DataFrame:
    """One row per patient: identifier, log risk, median, survival at the times asked for."""
    import pandas as pd

    curves = fitted.predict_survival(patients)
    if at:
        curves = _at_times(fitted, curves, list(dict.fromkeys(at)))
    identifier = fitted.study.schema.patient_id
    known = identifier is not None and identifier in patients.columns
    first = patients[identifier] if known else pd.Series(range(1, len(patients) + 1))
    columns = {
        identifier if known else "row": first.to_numpy(),
        "log_risk": fitted.predict_log_risk(patients).to_numpy(),
        "median": fitted.predict_median(patients).to_numpy(),
    }
    columns |= {_survival_name(float(t)): curves[t].to_numpy() for t in curves.columns}
    return pd.DataFrame(columns)


def _survival_name(time: float) -> str:
    """All digits of the time: two event times must not share a column."""
    import numpy as np

    return f"survival_{np.format_float_positional(time, trim='-')}"


def _at_times(fitted: FittedStudy, curves: pd.DataFrame, at: list[float]) -> pd.DataFrame:
    """Survival steps at interval ends: the value at the last one reached, one before that."""
    import numpy as np
    import pandas as pd

    from fedcox.errors import InputError
    from fedcox.survival.step_function import steps_reached

    ends = fitted.interval_ends
    beyond = [time for time in at if not 0 <= time <= ends[-1]]
    if beyond:
        raise InputError(
            f"The fit follows patients up to {ends[-1]:g} {fitted.study.schema.time_unit}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
    values = np.column_stack([np.ones(len(curves)), curves.to_numpy()])
    position = steps_reached(ends, np.array(at))
    return pd.DataFrame(values[:, position], index=curves.index, columns=pd.Index(at))
