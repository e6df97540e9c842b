"""Which slides failed in which step, and why: failures.csv of a working folder."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedcox.errors import SlideError
from fedcox.files.claim import claimed
from fedcox.files.writing import whole_file

COLUMNS = ("slide_id", "step", "reason")
_PATIENCE = 10.0


def reason_of(error: SlideError) -> str:
    """One line for failures.csv."""
    return " ".join([error.subject, *error.faults])


def write_failures(
    work: Path, step: str, failed: Mapping[str, str], settled: Iterable[str]
) -> Path:
    """Replace the rows of `step` about the slides `settled`: those in `failed` have a reason.

    Rows of other steps stay, and those of slides that another process works on.
    """
    path = work / "failures.csv"
    gone = set(settled)
    begun = time.monotonic()
    while True:
        with claimed(path) as ours:
            if ours or time.monotonic() - begun > _PATIENCE:
                rows = [
                    row for row in read_failures(work) if row[1] != step or row[0] not in gone
                ]
                rows += [(slide, step, failed[slide]) for slide in failed]
                _write(path, sorted(rows))
                return path
        time.sleep(0.05)


def failures_beside(out: Path) -> Path:
    """Where a command that writes `out` alone names what it left out."""
    return out.with_name(f"{out.name.removesuffix('.csv')}-failures.csv")


def write_failures_beside(
    out: Path, step: str, slides: Mapping[str, str], patients: Mapping[str, str]
) -> Path | None:
    """Slides and patients with the reasons; with none, the file of an earlier run goes."""
    path = failures_beside(out)
    rows = [(name, step, reason) for name, reason in slides.items()]
    rows += [("", step, f"Patient '{name}': {reason}") for name, reason in patients.items()]
    if not rows:
        path.unlink(missing_ok=True)
        return None
    _write(path, rows)
    return path


def read_failures(work: Path) -> list[tuple[str, str, str]]:
    """(slide_id, step, reason) of every slide that failed; none where no step has run."""
    try:
        with (work / "failures.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        return []
    return [(row["slide_id"], row["step"], row["reason"]) for row in rows]


def _write(path: Path, rows: list[tuple[str, str, str]]) -> None:
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
