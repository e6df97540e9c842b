"""What is given to an estimator: a table of patients and their outcomes, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.errors import CohortError, StudyError
from fedcox.study.fit_rows import Notice
from fedcox.study.plan import Plan
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray

if TYPE_CHECKING:
    Objects = np.ndarray[Any, np.dtype[np.object_]]


def is_finite_number(value: object) -> bool:
    """A finite one, of Python or numpy."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return bool(np.isfinite(value))


def refuse_unsupported(unsupported: Mapping[str, Any]) -> None:
    """What other estimators take beside X and y."""
    if unsupported.get("sample_weight") is not None:
        raise CohortError(
            "sample_weight is not supported: every patient counts once.",
            ["Leave sample_weight out."],
        )
    others = sorted(set(unsupported) - {"sample_weight"})
    if others:
        raise TypeError(f"fit takes X and y, and no {', '.join(others)}.")


def edges_of(edges: Sequence[float] | None) -> tuple[float, ...] | None:
    """Where pieces end, as numbers."""
    try:
        return None if edges is None else tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        fault = f"edges is {edges!r}; it must be a list of numbers or None."
        raise StudyError("These settings cannot be used.", [fault]) from None


def notices_of_filled(names: Sequence[str], filled: FloatArray) -> list[Notice]:
    """What the mean stands for."""
    columns = [f"{int(n)} of {name}" for name, n in zip(names, filled, strict=True) if n]
    if not columns:
        return []
    cells = f"Cells of X filled with the mean: {', '.join(columns)}."
    return [Notice("FilledCellsWarning", f"{cells} Standard errors take them for measured.")]


def check_times(cohort: Cohort, plan: Plan) -> None:
    """Refuse patients without time at risk, where time is exact."""
    nothing = int(np.count_nonzero(cohort.time <= 0))
    if nothing and not plan.link.grouped:
        raise CohortError(
            f"{nothing} patient(s) have a follow-up time of zero.",
            ["Record some time, or leave them out: nobody is at risk for no time."],
        )


def missing_values(patients: int) -> CohortError:
    """What to say of so many patients with missing values."""
    return CohortError(
        f"X has missing values (NaN), in {patients} patient(s).",
        [
            "Fill them or leave these patients out; or fit with missing='mean', which puts a "
            "column's mean for what is missing, in new patients too."
        ],
    )


def table_of(x: Any) -> FloatArray:
    """X as numbers: (patients, columns)."""
    if hasattr(x, "toarray"):  # scipy's, which need not be loaded for it
        raise CohortError(
            "X is a sparse matrix, and sparse input is not supported.",
            ["Call X.toarray() first."],
        )
    try:
        array = np.asarray(x)
        if array.dtype.kind == "O" and hasattr(x, "to_numpy"):  # pandas' own missing values
            array = x.to_numpy(dtype=np.float64, na_value=np.nan)
        table = array.astype(np.float64, copy=False) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        table = None
    if table is None:
        raise CohortError(
            "X has columns that are not numbers.",
            ["Encode categories as indicators first. Complex data not supported."],
        )
    if table.ndim != 2:
        raise CohortError(
            f"X has {table.ndim} dimension(s); it needs two: patients, columns.",
            ["Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."],
        )
    return table


def names_of(x: Any) -> tuple[str, ...]:
    """What the columns of X are called."""
    if hasattr(x, "columns"):
        return tuple(str(name) for name in x.columns)
    return tuple(f"x{j}" for j in range(np.shape(x)[1])) if np.ndim(x) == 2 else ()


def outcome(y: Any) -> tuple[FloatArray, BoolArray]:
    """Time and event from a structured array, a (time, event) pair, or two columns."""
    if y is None:
        raise CohortError("Survival requires y to be passed, but the target y is None.")
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        event_name = next((n for n in y.dtype.names if y.dtype[n] == np.bool_), None)
        time_name = next((n for n in y.dtype.names if n != event_name), None)
        if event_name is None or time_name is None or len(y.dtype.names) != 2:
            raise CohortError(
                "A structured y needs two fields: a boolean event and a numeric time."
            )
        time, event = y[time_name], y[event_name]
    elif isinstance(y, tuple) and len(y) == 2:
        time, event = np.asarray(y[0]), np.asarray(y[1])
    elif np.ndim(y) == 2 and np.shape(y)[1] == 2:
        table = np.asarray(y)
        time, event = table[:, 0], table[:, 1]
    else:
        raise CohortError(
            "y must be a structured array (event, time), a pair (time, event), or two columns."
        )
    flags = np.asarray(event)
    if flags.dtype != np.bool_ and not np.isin(flags, (0, 1)).all():
        raise CohortError("The event in y must be true or false, or 1 or 0.")
    try:
        return np.asarray(time, dtype=np.float64), flags.astype(np.bool_)
    except (TypeError, ValueError):
        raise CohortError("The time in y must be numbers, in the unit of the study.") from None
