"""`fedcox reproduce …`: the paper's experiments, each from one command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.evaluate import run_with_progress
from fedcox.cli.options import Workers, to_replace, to_write
from fedcox.cli.simulate import Bound
from fedcox.cli.terminal import Terminal, command_again, progress_bar, show_page

if TYPE_CHECKING:
    from fedcox.evaluation.comparison import Claim
    from fedcox.paper.reproduction import Compared, Progress, Reproduction, SmallStudy
    from fedcox.paper.slides_run import SlidesRequest


Out = Annotated[Path, to_write("RUN")]
Quick = Annotated[bool, typer.Option("--quick", help="A minute instead of the paper's sizes.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")]
Overwrite = Annotated[bool, to_replace("a run")]


def _run(
    name: str,
    run: Callable[[bool, Progress], SmallStudy],
    html: Callable[..., str],
    out: Path,
    *,
    quick: bool,
    overwrite: bool,
) -> None:
    """Run one of the small studies, and write its numbers and its page."""
    from fedcox.reports.page import PageFolder

    folder = PageFolder(name, "reproduction")
    folder.check(out, overwrite=overwrite)
    with _watching(name) as watch:
        result = run(quick, watch)
    folder.write(out, result.to_json(), html(result, command=command_again()))
    show_page(out / folder.page)


@contextmanager
def _watching(name: str) -> Iterator[Progress]:
    """A bar for what says how many of how many are done, and what comes next."""
    with progress_bar() as progress:
        task = progress.add_task(name)

        def watch(done: int, total: int, words: str) -> None:
            progress.update(task, completed=done, total=total, description=words or name)

        yield watch


def appendix_a(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Appendix A: the discrete-time model against Cox's, as intervals shrink.

    fedcox reproduce appendix-a --quick --out appendix-a
    """
    from fedcox.paper.appendix_a import appendix_html, run_appendix_a

    _run("appendix-a", run_appendix_a, appendix_html, out, quick=quick, overwrite=overwrite)


def communication(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Section 5.2: numbers and bytes that leave a center, for every method.

    fedcox reproduce communication --quick --out communication
    """
    from fedcox.paper.communication import run_communication
    from fedcox.paper.communication_page import communication_html

    run, html = run_communication, communication_html
    _run("communication", run, html, out, quick=quick, overwrite=overwrite)


def compression(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index against bytes, which the paper leaves open: gradients in fewer bytes.

    Five ways of compressing them, with and without error feedback, for 20 and
    200 covariates.

    fedcox reproduce compression --quick --out compression
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.paper.compression import run_compression
        from fedcox.paper.compression_page import compression_html

        run, html = run_compression, compression_html
        _run("compression", run, html, out, quick=quick, overwrite=overwrite)


def privacy(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index, error and intervals against epsilon, which the paper leaves open.

    Noise under secure sums and at each center, for 6 and 20 covariates.

    fedcox reproduce privacy --quick --out privacy
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.paper.privacy import run_privacy
        from fedcox.paper.privacy_page import privacy_html

        _run("privacy", run_privacy, privacy_html, out, quick=quick, overwrite=overwrite)


def run_panels(
    reproduction: Reproduction, out: Path, *, workers: int | None, resume: bool, overwrite: bool
) -> None:
    """Run what is left of it, write the folder, and show what was found."""
    from fedcox.paper.reproduction import (
        begin_reproduction,
        check_reproduction_folder,
        rows_file,
        write_reproduction_run,
    )

    names = [panel.name for panel in reproduction.panels]
    check_reproduction_folder(out, names, overwrite=overwrite, resume=resume)
    begin_reproduction(out, reproduction.panels, overwrite=overwrite)
    processes = workers or os.cpu_count() or 1
    rows = {
        panel.name: run_with_progress(
            panel.experiment, rows_file(out, panel.name), processes, what=panel.title
        )
        for panel in reproduction.panels
    }
    compared, claims = write_reproduction_run(out, reproduction, rows, command=command_again())
    _show(reproduction, compared, claims, out)


def _show(
    reproduction: Reproduction, compared: Compared, claims: tuple[Claim, ...], out: Path
) -> None:
    from fedcox.paper.reproduction import PAGE, claims_table
    from fedcox.reports.evaluation_table import evaluation_table

    console = Terminal()
    titles = {panel.name: panel.title for panel in reproduction.panels}
    schemes = reproduction.panels[0].experiment.schemes
    for (panel, _), comparison in compared.items():
        console.print(evaluation_table(comparison, schemes, title=titles[panel]))
    title = "The paper's conclusions, as checked here"
    console.print(claims_table(claims, title=title, caption=reproduction.claims_note))
    show_page(out / PAGE)


def synthetic(
    out: Out,
    quick: Quick = False,
    censoring: Annotated[
        Bound,
        typer.Option(help="Censored up to each patient's own median survival, or up to one."),
    ] = "patient",
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
        from fedcox.paper.synthetic import synthetic as of_the_paper

        reproduction = of_the_paper(quick=quick, bound=censoring)
        run_panels(reproduction, out, workers=workers, resume=resume, overwrite=overwrite)


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
        from fedcox.paper.reproduction import check_reproduction_folder
        from fedcox.paper.tcga.experiment import tcga as of_the_paper
        from fedcox.paper.tcga.experiment import tcga_tables

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


def _run_slides(
    out: Path, source: SlidesRequest, *, quick: bool, resume: bool, overwrite: bool
) -> None:
    from fedcox.paper.reproduction import claims_table
    from fedcox.paper.slide_study import claims
    from fedcox.paper.slides_page import draw_examples
    from fedcox.paper.slides_run import MAPS, PAGE, prepare_folder, run_slides, write_slides

    source.check()
    prepare_folder(out, resume=resume, overwrite=overwrite, simulated=source.simulated)
    command = command_again()
    with _watching("slides") as watch:
        study = run_slides(out, source, quick, watch)
        watch(1, 1, "drawing maps")
        draw_examples(study, out / MAPS, command=command)
    write_slides(out, study, command=command)
    title = "Simulated slides: what was found" if study.simulated else "What was found"
    Terminal().print(claims_table(claims(study), title=title))
    show_page(out / PAGE)


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
        Path | None, typer.Option(metavar="FILE", help="With --slides: weights of a ResNet-50.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --slides: an encoder as ONNX.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --slides: features ready made.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(metavar="WORK", help="With --slides: where steps keep files.")
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
        from fedcox.paper.slides_run import SlidesRequest

        source = SlidesRequest(
            manifest, patients, weights, onnx, features, work, cancer, device
        )
        _run_slides(out, source, quick=quick, resume=resume, overwrite=overwrite)


reproduce = typer.Typer(
    name="reproduce",
    no_args_is_help=True,
    help="""Rerun the paper: schemes on simulated patients and on TCGA, messages, appendix A.

    Each writes a folder with its numbers and a page to read. `--quick` takes about a minute
    and shows the same picture at a smaller size.
    """,
)
for command in (synthetic, tcga, communication, appendix_a, compression, privacy, slides):
    reproduce.command()(command)
