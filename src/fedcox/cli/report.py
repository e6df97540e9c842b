"""`fedcox report`: the page and the table of a fit, again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a fit.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Where to write; default RUN/report.html."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --out: replace a file that is there.")
    ] = False,
) -> None:
    """Write the report of a fit again, from its fit.json and ledger.jsonl.

    Example: fedcox report run --out for-the-meeting.html
    """
    from fedcox.cli.fit import show
    from fedcox.errors import OutputError
    from fedcox.reports.run_folder import read_run
    from fedcox.reports.study_report import write_report

    fitted = read_run(run)
    if out is not None and out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists already.", ["Choose another name, or say --overwrite."]
        )
    folder = run if run.is_dir() else run.parent
    page = out or folder / "report.html"
    write_report(fitted, page)
    show(fitted, page)
