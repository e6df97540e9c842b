"""What a fit leaves on disk, fit.json, summary.csv, report.html, ledger.jsonl; predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedcox.errors import InputError
from fedcox.files.writing import check_folder, whole_folder, write_atomically
from fedcox.reports.privacy_ledger import read_ledger, write_ledger
from fedcox.reports.study_report import write_report
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released

FILES = ("fit.json", "summary.csv", "report.html", "ledger.jsonl")


def check_run_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, before any work is done."""
    check_folder(
        folder,
        overwrite=overwrite,
        is_ours=lambda path: path.name in FILES and path.is_file(),
        what="run",
    )


def write_run(
    fitted: FittedStudy, folder: str | Path, *, overwrite: bool = False
) -> FittedStudy:
    """Write the whole folder or nothing of it; the fit as rounded for all files."""
    check_run_folder(folder, overwrite=overwrite)
    fitted = released(fitted)
    with whole_folder(folder) as part:
        fitted.save(part / "fit.json")
        write_atomically(part / "summary.csv", fitted.summary.to_csv())
        write_ledger(fitted.ledger, part / "ledger.jsonl")
        write_report(fitted, part / "report.html")
    return fitted


def read_run(path: str | Path) -> FittedStudy:
    """A run folder, or its fit.json; the ledger comes along where it is there."""
    given = Path(path)
    file = given / "fit.json" if given.is_dir() else given
    if not file.exists():
        raise InputError(
            f"{given}: there is no fit here.",
            ["Give the folder that `fedcox fit … --out` wrote, or its fit.json."],
        )
    fitted = FittedStudy.read(file)
    ledger = file.with_name("ledger.jsonl")
    return replace(fitted, ledger=read_ledger(ledger)) if ledger.exists() else fitted


def predictions(
    fitted: FittedStudy, patients: pd.DataFrame, at: list[float] | None
) -> pd.DataFrame:
    """New patients, a row each: identifier, log risk, median, survival at these times."""
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
    return f"survival_{np.format_float_positional(time, trim='-')}"


def _usual_times(fitted: FittedStudy) -> list[float]:
    """A few round times; in grouped time every interval's end."""
    if fitted.grouped:
        return [float(end) for end in fitted.interval_ends]
    return [row.time for row in fitted.risk_table if row.time > 0] or [fitted.horizon]


def _check_times(fitted: FittedStudy, times: list[float]) -> None:
    beyond = [time for time in times if not 0 <= time <= fitted.horizon * (1 + 1e-9)]
    if beyond:
        raise InputError(
            f"The fit follows patients up to {fitted.horizon:g} "
            f"{fitted.study.schema.time_unit}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
