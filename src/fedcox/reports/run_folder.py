"""What a fit leaves on disk: fit.json, summary.csv, report.html, ledger.jsonl."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
