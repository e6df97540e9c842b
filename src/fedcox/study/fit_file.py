"""fit.json: a fitted study as one JSON file, and back.

Numbers are rounded as `released` says, and then written so that they read back to the last bit.
JSON has no NaN and no infinity:
such a number is written as null. One row of a table takes one line, so that two fits can be
compared with any diff tool.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.errors import InputError, StudyError
from fedcox.files.writing import write_atomically
from fedcox.study.fit_rows import (
    BaselineInterval,
    CenterRow,
    Coefficient,
    Guarantee,
    Notice,
    RiskRow,
    RoundRow,
)
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from fedcox.survival.cohort import FloatArray
from fedcox.survival.survival_curve import CurveError

if TYPE_CHECKING:
    from fedcox.study.study import Study

FIT_FILE_VERSION = 2

_REQUIRED = (
    "study",
    "centers",
    "patients",
    "events",
    "grid",
    "link",
    "ratio_name",
    "coefficients",
    "baseline",
    "log_likelihood",
    "converged",
    "rounds",
    "bytes_up",
    "bytes_down",
)


def write_fit(fitted: FittedStudy, path: str | Path) -> None:
    """Write `fitted` without its ledger to `path`, whole or not at all."""
    write_atomically(path, fit_text(released(fitted)))


def fit_text(fitted: FittedStudy) -> str:
    """The content of fit.json."""
    record = {
        "version": FIT_FILE_VERSION,
        "study": fitted.study.to_dict(),
        "study_source": fitted.study.source,
        "centers": [vars(row) for row in fitted.centers],
        "patients": fitted.patients,
        "events": fitted.events,
        "grid": {
            "edges": fitted.edges,
            "resolution": fitted.resolution,
            "every_event_time": fitted.every_event_time,
        },
        "link": fitted.link,
        "ratio_name": fitted.ratio_name,
        "coefficients": [vars(row) for row in fitted.coefficients],
        "covariance": fitted.coefficient_covariance,
        "baseline": [vars(row) for row in fitted.baseline],
        "curve_error": None if fitted.curve_error is None else vars(fitted.curve_error),
        "risk_table": [vars(row) for row in fitted.risk_table],
        "followed_longer": fitted.followed_longer,
        "log_likelihood": fitted.log_likelihood,
        "null_log_likelihood": fitted.null_log_likelihood,
        "likelihood_ratio": fitted.likelihood_ratio,
        "converged": fitted.converged,
        "ending": fitted.ending,
        "rounds": fitted.rounds,
        "bytes_up": fitted.bytes_up,
        "bytes_down": fitted.bytes_down,
        "concordance": fitted.concordance,
        "convergence": [vars(row) for row in fitted.convergence],
        "warnings": [vars(row) for row in fitted.notices],
        "versions": dict(fitted.versions),
        "command": fitted.command,
        "guarantee": _guarantee_record(fitted.guarantee),
        "deployed": fitted.deployed,
    }
    lines = [f"{json.dumps(key)}: {_value_text(_plain(record[key]))}" for key in record]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_fit(path: str | Path) -> FittedStudy:
    """Read a fit.json; anything else is named as what it is."""
    record = _record(Path(path))
    try:
        return _fitted(record, _study(record))
    except StudyError:
        raise  # it says itself what is wrong with the study
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a complete fit.json.",
            [f"{type(error).__name__}: {error}", "Run `fedcox fit` again to write it anew."],
        ) from error


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror or error}.",
            ["Give the fit.json that `fedcox fit` wrote into its output folder."],
        ) from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise InputError(
            f"{path} is not a JSON file.",
            ["Give the fit.json that `fedcox fit` wrote into its output folder."],
        ) from error
    if not isinstance(record, dict) or "version" not in record:
        raise InputError(
            f"{path} is JSON, but not a fit.json: it has no version.",
            ["Give the fit.json that `fedcox fit` wrote into its output folder."],
        )
    if record["version"] != FIT_FILE_VERSION:
        raise InputError(
            f"{path} has version {record['version']!r} of fit.json; this fedcox reads version "
            f"{FIT_FILE_VERSION}.",
            ["Fit the study again, or read the file with the fedcox that wrote it."],
        )
    lacking = [key for key in _REQUIRED if key not in record]
    if lacking:
        raise InputError(
            f"{path} is not a complete fit.json.",
            [f"It lacks {', '.join(lacking)}.", "Run `fedcox fit` again to write it anew."],
        )
    return record


def _study(record: Mapping[str, Any]) -> Study:
    """The study with its comments, if its text still says what its tables say."""
    from fedcox.study.study import Study

    study = Study.from_dict(record["study"])
    try:
        as_written = Study.parse(record["study_source"])
    except (KeyError, TypeError, InputError):
        return study
    return as_written if as_written == study else study


def _fitted(record: Mapping[str, Any], study: Study) -> FittedStudy:
    return FittedStudy(
        study=study,
        centers=tuple(CenterRow(**row) for row in record["centers"]),
        patients=record["patients"],
        events=record["events"],
        edges=np.array(record["grid"]["edges"], dtype=np.float64),
        resolution=record["grid"]["resolution"],
        every_event_time=record["grid"]["every_event_time"],
        link=record["link"],
        ratio_name=record["ratio_name"],
        coefficients=tuple(Coefficient(**row) for row in record["coefficients"]),
        baseline=tuple(BaselineInterval(**row) for row in record["baseline"]),
        log_likelihood=_number(record["log_likelihood"]),
        null_log_likelihood=_number(record.get("null_log_likelihood")),
        likelihood_ratio=record.get("likelihood_ratio"),
        converged=record["converged"],
        rounds=record["rounds"],
        bytes_up=record["bytes_up"],
        bytes_down=record["bytes_down"],
        concordance=record.get("concordance"),
        convergence=tuple(RoundRow(**row) for row in record.get("convergence", ())),
        notices=tuple(Notice(**row) for row in record.get("warnings", ())),
        versions=record.get("versions", {}),
        coefficient_covariance=_array(record.get("covariance")),
        risk_table=tuple(RiskRow(**row) for row in record.get("risk_table", ())),
        followed_longer=record.get("followed_longer", 0),
        curve_error=_curve_error(record.get("curve_error")),
        command=record.get("command"),
        guarantee=_guarantee(record.get("guarantee")),
        deployed=record.get("deployed", False),
    )


def _guarantee_record(guarantee: Guarantee | None) -> dict[str, Any] | None:
    """What is not known is left out: null stands for an epsilon beyond all that is counted."""
    if guarantee is None:
        return None
    return {key: value for key, value in vars(guarantee).items() if value is not None}


def _guarantee(record: Mapping[str, Any] | None) -> Guarantee | None:
    if not record:
        return None
    epsilons = ("epsilon", "epsilon_against_centers")
    beyond = {key: math.inf for key in epsilons if record.get(key, 0.0) is None}
    return Guarantee(**{**record, **beyond})


def _array(rows: Any) -> FloatArray | None:
    return None if rows is None else np.array(rows, dtype=np.float64)


def _curve_error(record: Mapping[str, Any] | None) -> CurveError | None:
    if record is None:
        return None
    hazard, variance, mean = (
        np.array(record[key], dtype=np.float64) for key in ("hazard", "variance", "mean")
    )
    return CurveError(hazard, variance, mean, record["every"])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """The same value in JSON's own types: no array, no numpy scalar, no NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _value_text(value: Any) -> str:
    if isinstance(value, list) and value:
        rows = ",\n".join("  " + json.dumps(row, allow_nan=False) for row in value)
        return f"[\n{rows}\n]"
    return json.dumps(value, allow_nan=False)
