"""Survival of new patients from a fit, as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedcox.errors import InputError
from fedcox.study.fitted import FittedStudy


def predictions(
    fitted: FittedStudy, patients: pd.DataFrame, at: list[float] | None
) -> pd.DataFrame:
    """One row per patient: identifier, log risk, median, survival at the times asked for."""
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
