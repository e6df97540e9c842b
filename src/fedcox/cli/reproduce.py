"""`fedcox reproduce`: the paper's experiments, each from one command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.simulate import Bound

if TYPE_CHECKING:
    from fedcox.data.tcga import TcgaTable
    from fedcox.evaluation.reproduction import Claim, Compared, Reproduction
    from fedcox.evaluation.result import Row

reproduce = typer.Typer(
    name="reproduce",
    no_args_is_help=True,
    help="""Rerun the paper: schemes on simulated patients and on TCGA, messages, appendix A.

    Each writes a folder with its numbers and a page to read. `--quick` takes about a minute
    and shows the same picture at a smaller size.
    """,
)

Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write.")]
Quick = Annotated[bool, typer.Option("--quick", help="A minute instead of the paper's sizes.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes at work; default: one for each core.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a run that is there already.")
]


@reproduce.command()
def synthetic(
    out: Out,
    quick: Quick = False,
    censoring: Annotated[
        Bound,
        typer.Option(help="Censored up to each patient's own median survival, or up to one."),
    ] = Bound.PATIENT,
    workers: Workers = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Section 6.1, figure 2: simulated patients, split at random and by time.

    The paper's sizes are 5000 patients with 200 covariates in five centers,
    20 runs of 5 folds.

    fedcox reproduce synthetic --quick --out synthetic
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():  # numpy reads the setting when it is loaded, which is below
        from fedcox.evaluation.paper_synthetic import synthetic as of_the_paper

        reproduction = of_the_paper(quick=quick, bound=censoring.value)
        _run(reproduction, out, workers=workers, resume=resume, overwrite=overwrite)


@reproduce.command()
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
        from fedcox.evaluation.paper_tcga import tcga as of_the_paper
        from fedcox.evaluation.reproduction_folder import check_reproduction_folder

        files = _files(clinical)
        panels = [cancer.lower() for cancer in files]
        check_reproduction_folder(out, panels, overwrite=overwrite, resume=resume)
        reproduction = of_the_paper(_tables(files, outcome, regions), quick=quick)
        _run(reproduction, out, workers=workers, resume=resume, overwrite=overwrite)


@reproduce.command()
def communication(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Section 5.2: numbers and bytes that leave a center, for every method.

    fedcox reproduce communication --quick --out communication
    """
    from fedcox.evaluation.communication import run_communication
    from fedcox.reports.communication_page import write_communication_page

    _study(out, "communication", overwrite, quick, run_communication, write_communication_page)


@reproduce.command("appendix-a")
def appendix_a(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Appendix A: the discrete-time model against Cox's, as intervals shrink.

    fedcox reproduce appendix-a --quick --out appendix-a
    """
    from fedcox.evaluation.appendix_a import run_appendix_a
    from fedcox.reports.appendix_page import write_appendix_page

    _study(out, "appendix-a", overwrite, quick, run_appendix_a, write_appendix_page)


@reproduce.command()
def compression(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index against bytes, which the paper leaves open: gradients in fewer bytes.

    Five ways of compressing them, with and without error feedback, for 20 and
    200 covariates.

    fedcox reproduce compression --quick --out compression
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.evaluation.paper_compression import run_compression
        from fedcox.reports.compression_page import write_compression_page

        _study(out, "compression", overwrite, quick, run_compression, write_compression_page)


@reproduce.command()
def privacy(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index against epsilon, which the paper leaves open: differential privacy.

    Noise once under secure sums and at each center, for 20 and 200 covariates,
    and an audit of epsilon.

    fedcox reproduce privacy --quick --out privacy
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.evaluation.paper_privacy import run_privacy
        from fedcox.reports.privacy_page import write_privacy_page

        _study(out, "privacy", overwrite, quick, run_privacy, write_privacy_page)


@reproduce.command()
def slides(
    out: Out,
    quick: Quick = False,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--slides",
            metavar="SLIDES.csv",
            help="Slides of your own: slide_id, patient_id, center, path. Default: simulated.",
        ),
    ] = None,
    patients: Annotated[
        Path | None,
        typer.Option(metavar="PATIENTS.csv", help="With --slides: patient_id, time, event."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --slides: weights of a ResNet-50."),
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --slides: an encoder as ONNX.")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --slides: features ready made."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="WORK", help="With --slides: where steps keep files."),
    ] = None,
    cancer: Annotated[
        str | None,
        typer.Option(help="With --slides: BRCA, COAD, KIRC or LGG, to set the paper's beside."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where tiles are encoded: cpu or cuda.")] = "cpu",
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Section 6.3, table 2: whole slides, DT-FL over centers against MINI on pooled slides.

    Without slides of your own it simulates some, and goes the whole way from pyramids on disk
    to heatmaps: segment, tile, embed with an untrained ResNet-50, reduce, train. With --slides
    it does the same on your folder; the paper's sizes are 5 runs of 5 folds.

    fedcox reproduce slides --quick --out slides

    fedcox reproduce slides --slides slides.csv --patients patients.csv --weights resnet50.pth
    --cancer KIRC --device cuda --out kirc
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.cli.reproduce_slides import OwnSlides, reproduce_slides

        own = OwnSlides(manifest, patients, weights, onnx, features, work, cancer, device)
        reproduce_slides(out, own, quick=quick, resume=resume, overwrite=overwrite)


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


def _tables(files: dict[str, str], outcome: Path | None, regions: Path) -> dict[str, TcgaTable]:
    """One table per cancer; what is wrong with any of them is told at once."""
    from fedcox.data.tcga import read_tcga
    from fedcox.errors import InputError

    tables: dict[str, TcgaTable] = {}
    faults: list[str] = []
    for cancer, file in files.items():
        try:
            tables[cancer] = read_tcga(
                clinical=file, outcome=outcome, regions=regions, cancer=cancer
            )
        except InputError as error:
            faults += [error.subject, *error.faults]
    if faults:
        raise InputError(
            "The tables of TCGA cannot be used as they are.", [*dict.fromkeys(faults)]
        )
    return tables


def _study(
    out: Path,
    name: str,
    overwrite: bool,
    quick: bool,
    run: Callable[..., Any],
    write_page: Callable[..., None],
) -> None:
    """Run one of the small studies, and write its numbers and its page."""
    from fedcox.analysis.atomic_folder import check_folder, whole_folder

    files = {f"{name}.json", f"{name}.html"}
    check_folder(
        out,
        overwrite=overwrite,
        is_ours=lambda path: path.name in files and path.is_file(),
        what="reproduction",
    )
    with progress_bar() as progress:
        task = progress.add_task(name)

        def watch(done: int, total: int, words: str) -> None:
            progress.update(task, completed=done, total=total, description=words or name)

        result = run(quick, watch)
    with whole_folder(out) as folder:
        text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        write_page(folder / f"{name}.html", result, command=own_command())
    typer.echo(f"The page to read: {out / f'{name}.html'}")


def _run(
    reproduction: Reproduction,
    out: Path,
    *,
    workers: int | None,
    resume: bool,
    overwrite: bool,
) -> None:
    from fedcox.cli.evaluate import run_shown
    from fedcox.evaluation.comparison import compare
    from fedcox.evaluation.reproduction_folder import (
        begin_reproduction,
        check_reproduction_folder,
        rows_file,
        write_reproduction,
    )

    names = [panel.name for panel in reproduction.panels]
    check_reproduction_folder(out, names, overwrite=overwrite, resume=resume)
    begin_reproduction(out, reproduction.panels, overwrite=overwrite)
    rows: dict[str, tuple[Row, ...]] = {}
    for panel in reproduction.panels:
        file = rows_file(out, panel.name)
        rows[panel.name] = run_shown(
            panel.experiment, file, workers or os.cpu_count() or 1, what=panel.title
        )
    compared = {
        (panel.name, comparison.evaluation): comparison
        for panel in reproduction.panels
        for comparison in compare(
            rows[panel.name], drawn_anew=panel.experiment.problem.drawn_anew
        )
    }
    claims = reproduction.claims(compared)
    write_reproduction(out, reproduction, compared, claims, command=own_command())
    _write_page(reproduction, rows, claims, out)
    _show(reproduction, compared, claims, out)


def _write_page(
    reproduction: Reproduction,
    rows: dict[str, tuple[Row, ...]],
    claims: tuple[Claim, ...],
    out: Path,
) -> None:
    from fedcox.evaluation.reproduction_folder import PAGE, expected_indices
    from fedcox.reports.evaluation_page import (
        EvaluatedData,
        EvaluationPage,
        write_evaluation_page,
    )

    expected = expected_indices(reproduction.name)
    first = reproduction.panels[0].experiment
    page = EvaluationPage(
        title=reproduction.title,
        lead=reproduction.lead,
        data=[
            EvaluatedData(
                panel.title,
                rows[panel.name],
                panel.experiment.problem.cohorts(panel.experiment.seeds[0]),
                panel.unit,
                drawn_anew=panel.experiment.problem.drawn_anew,
                expected=expected.get(panel.name, {}),
                notes=panel.notes,
            )
            for panel in reproduction.panels
        ],
        command=own_command(),
        versions=first.header["versions"],
        reference=reproduction.reference,
        source="fedcox's stored run at the paper's sizes",
        claims=claims,
        claims_note=reproduction.claims_note,
    )
    write_evaluation_page(page, out / PAGE)


def _show(
    reproduction: Reproduction, compared: Compared, claims: tuple[Claim, ...], out: Path
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedcox.evaluation.reproduction_folder import PAGE
    from fedcox.reports.evaluation_table import evaluation_table

    console = Console()
    titles = {panel.name: panel.title for panel in reproduction.panels}
    schemes = reproduction.panels[0].experiment.schemes
    for (panel, _), comparison in compared.items():
        console.print(evaluation_table(comparison, schemes, title=titles[panel]))
    table = Table(
        title="The paper's conclusions, as checked here",
        title_justify="left",
        title_style="bold",
        caption=reproduction.claims_note,
        caption_justify="left",
    )
    table.add_column("statement")
    table.add_column("measured")
    table.add_column("held")
    for claim in claims:
        table.add_row(escape(claim.statement), claim.measured, "yes" if claim.held else "NO")
    console.print(table)
    console.print(f"The page to read: {escape(str(out / PAGE))}", soft_wrap=True)
