"""A simulated study on disk: the plan, one file per hospital, and all of them in one file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcox.data.synthetic import HIGHEST_MARKER, STAGES, SimulatedTable
from fedcox.files import writing
from fedcox.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

#: Patients turned into text at a time: many hospitals' worth, few enough for any memory.
_ROWS = 20_000
_OUR_FILES = re.compile(r"study\.toml|all\.csv|hospital_[0-9]+\.csv")


def clinical_study() -> Study:
    """The plan for `simulate_hospitals`."""
    return Study(
        study={"name": "simulated hospitals", "patient_id": "patient"},
        outcome={"time": "time", "event": "status", "unit": "days"},
        covariates={
            "age": {"type": "number", "min": 0, "max": 120},
            "sex": {"type": "category", "levels": ["female", "male"], "reference": "female"},
            "stage": {"type": "category", "levels": list(STAGES), "reference": "I"},
            "marker": {"type": "number", "min": 0, "max": HIGHEST_MARKER},
        },
        grid={"horizon": 1800},
    )


def paper_study(columns: int) -> Study:
    """The plan for the paper's section 6.1: its link, and every distinct event time."""
    return Study(
        study={"name": "simulated as in the paper", "patient_id": "patient"},
        outcome={"time": "time", "event": "status", "unit": "units of time"},
        covariates=[f"x{number}" for number in range(1, columns + 1)],
        grid={"times": "events"},
        model={"link": "logit"},
    )


def check_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it holds a simulation that may be replaced."""
    writing.check_folder(folder, overwrite=overwrite, is_ours=_is_ours, what="simulation")


def write_simulation(
    folder: str | Path,
    study: Study,
    simulated: SimulatedTable,
    *,
    overwrite: bool = False,
    wrote: Callable[[str], None] = lambda name: None,
) -> None:
    """Write the whole folder or nothing of it; `wrote` hears of each file."""
    check_folder(folder, overwrite=overwrite)
    with writing.whole_folder(Path(folder).resolve()) as part:
        _write_files(part, study, simulated, wrote)


def _is_ours(path: Path) -> bool:
    return path.is_file() and _OUR_FILES.fullmatch(path.name) is not None


def _write_files(
    folder: Path, study: Study, simulated: SimulatedTable, wrote: Callable[[str], None]
) -> None:
    frame = simulated.frame
    text = _heading(simulated) + study.to_toml()
    (folder / "study.toml").write_text(text, encoding="utf-8", newline="\n")
    wrote("study.toml")
    frame.to_csv(folder / "all.csv", index=False, lineterminator="\n")
    wrote("all.csv")
    _write_hospitals(folder, frame, wrote)


def _write_hospitals(folder: Path, frame: pd.DataFrame, wrote: Callable[[str], None]) -> None:
    """One file for each hospital, its patients in their order.

    Thousands of small tables take pandas longer to begin than to write, so that one text is
    made for many hospitals and cut.
    """
    import pandas as pd

    hospital, names = pd.factorize(frame["hospital"], sort=True)
    patients = frame.drop(columns="hospital").iloc[np.argsort(hospital, kind="stable")]
    ends = np.cumsum(np.bincount(hospital, minlength=len(names))).tolist()
    heading = patients.iloc[:0].to_csv(index=False, lineterminator="\n")
    lines: list[str] = []
    first = written = 0  # the patient that `lines` begin with, and the one to write next
    for name, end in zip(names, ends, strict=True):
        if end > first + len(lines):
            first = written
            rows = patients.iloc[first : max(end, first + _ROWS)]
            text = rows.to_csv(index=False, header=False, lineterminator="\n")
            lines = text.splitlines(keepends=True)
        own = "".join(lines[written - first : end - first])
        (folder / f"{name}.csv").write_text(heading + own, encoding="utf-8", newline="\n")
        written = end
        wrote(f"{name}.csv")


def _heading(simulated: SimulatedTable) -> str:
    """The truth, for whoever wants to compare; cut where the paper's many columns begin."""
    truth = list(simulated.log_hazard_ratios.items())
    shown = ", ".join(f"{name} {value:.4g}" for name, value in truth[:8])
    rest = f", and {len(truth) - 8} more" if len(truth) > 8 else ""
    return f"# Simulated patients. True log hazard ratios: {shown}{rest}.\n\n"
