"""`fedcox reproduce tcga`: learning schemes on patients of TCGA, with regions as centers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.reproduce.options import Out, Overwrite, Quick, Resume, Workers
from fedcox.cli.reproduce.panels import run_panels


def tcga(
    out: Out,
    clinical: Annotated[
        list[str],
        typer.Option(metavar="CANCER=FILE", help="Clinical table of a cancer; repeat."),
    ],
    regions: Annotated[
        Path, typer.Option(metavar="FILE", help="Which source site lies in which region.")
    ],
    outcome: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TCGA-CDR, as Excel or CSV.")
    ] = None,
    quick: Quick = False,
    workers: Workers = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Section 6.2, figure 3: cancers of TCGA in regions, folds and left-out regions.

    fedcox comes without these tables; docs/how-to-use-tcga.md says where they
    are. The paper's cancers are BRCA, COAD, KIRC and LGG; its sizes are
    20 runs of 5 folds.

    fedcox reproduce tcga --outcome TCGA-CDR.xlsx --regions sites.csv
    --clinical BRCA=brca.csv --clinical COAD=coad.csv --out tcga
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.paper.reproduction_folder import check_reproduction_folder
        from fedcox.paper.tcga import tcga as of_the_paper
        from fedcox.paper.tcga_tables import tcga_tables

        files = _files(clinical)
        panels = [cancer.lower() for cancer in files]
        check_reproduction_folder(out, panels, overwrite=overwrite, resume=resume)
        reproduction = of_the_paper(tcga_tables(files, outcome, regions), quick=quick)
        run_panels(reproduction, out, workers=workers, resume=resume, overwrite=overwrite)


def _files(clinical: list[str]) -> dict[str, str]:
    """The clinical tables as named on the command line, by cancer."""
    from fedcox.errors import InputError

    files: dict[str, str] = {}
    faults = []
    for text in clinical:
        cancer, equals, file = text.partition("=")
        if not (cancer and equals and file):
            faults.append(f"--clinical {text!r} is not of the form CANCER=FILE.")
        elif cancer.upper() in files:
            faults.append(f"{cancer.upper()} is given twice; give each cancer once.")
        files[cancer.upper()] = file
    if faults:
        raise InputError("The tables of TCGA are not clear.", faults)
    return files
