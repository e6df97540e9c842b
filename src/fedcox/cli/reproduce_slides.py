"""What `fedcox reproduce slides` does: run the experiment, draw maps, write the page."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    from fedcox.paper.slide_pipeline import SlideSource
    from fedcox.paper.slide_study import SlideStudy
    from fedcox.paper.slides import Progress

_RECORD, _PAGE, _MAPS = "slides.json", "slides.html", "heatmap"
#: What is made on the way: kept by --resume.
_ON_THE_WAY = ("simulated", "work")


@dataclass(frozen=True)
class OwnSlides:
    """Slides as named on the command line; no manifest stands for simulated ones."""

    manifest: Path | None
    patients: Path | None
    weights: Path | None
    onnx: Path | None
    features: Path | None
    work: Path | None
    cancer: str | None
    device: str


def reproduce_slides(
    out: Path, own: OwnSlides, *, quick: bool, resume: bool, overwrite: bool
) -> None:
    """The whole command."""
    from fedcox.paper.example_heatmaps import draw_examples
    from fedcox.paper.slides_page import write_slides_page

    _check(own)
    _prepare(out, resume=resume, overwrite=overwrite, simulated=own.manifest is None)
    with progress_bar() as progress:
        task = progress.add_task("slides")

        def watch(done: int, total: int, words: str) -> None:
            progress.update(task, completed=done, total=total, description=words or "slides")

        study = _run(out, own, quick, watch)
        progress.update(task, description="drawing maps")
        command = own_command()
        draw_examples(study, out / _MAPS, command=command)
    from fedcox.files.writing import write_atomically

    record = {"command": command, **study.to_json()}
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(out / _RECORD, text + "\n")
    write_slides_page(out / _PAGE, study, command=command, heatmaps=out / _MAPS)
    _show(study, out)


def _check(own: OwnSlides) -> None:
    from fedcox.errors import InputError
    from fedcox.paper.slide_study import PAPER_TABLE

    faults = []
    if own.device not in ("cpu", "cuda"):
        faults.append(f"--device {own.device}: it must be cpu or cuda.")
    if own.manifest is None:
        given = {
            name: getattr(own, name)
            for name in ("patients", "weights", "onnx", "features", "work", "cancer")
        }
        faults += [
            f"--{name} goes with --slides; without it slides are simulated."
            for name, value in given.items()
            if value is not None
        ]
    else:
        if own.patients is None:
            faults.append("--slides needs --patients: patient_id, time, event.")
        encoders = [own.weights, own.onnx, own.features]
        if sum(one is not None for one in encoders) != 1:
            faults.append("--slides needs one of --weights, --onnx and --features.")
        if own.cancer is not None and own.cancer.upper() not in PAPER_TABLE:
            faults.append(f"--cancer: the paper has {', '.join(PAPER_TABLE)}.")
    if faults:
        raise InputError("This experiment on slides is not clear.", faults)


def _prepare(out: Path, *, resume: bool, overwrite: bool, simulated: bool) -> None:
    """Refuse a folder in use; with --overwrite remove what an earlier run left.

    What was computed from slides of the user's own on the way is never removed: its steps
    see for themselves what has to be done anew.
    """
    from fedcox.errors import InputError, OutputError
    from fedcox.files.writing import check_folder

    if overwrite and resume:
        raise InputError(
            "--overwrite and --resume exclude each other.",
            ["Say --resume to keep what is there, --overwrite to begin again."],
        )
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite and not resume:
        raise OutputError(
            f"The folder {out} exists already.",
            ["Say --resume to go on with it, --overwrite to begin again, or choose another."],
        )
    ours = {_RECORD, _PAGE, _MAPS, *_ON_THE_WAY}
    check_folder(
        out, overwrite=True, is_ours=lambda path: path.name in ours, what="reproduction"
    )
    if overwrite:
        gone = {_RECORD, _PAGE, _MAPS, *(_ON_THE_WAY if simulated else ())}
        for path in out.iterdir():
            if path.name in gone:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _run(out: Path, own: OwnSlides, quick: bool, watch: Progress) -> SlideStudy:
    from fedcox.paper import slides as paper_slides

    device: Any = own.device  # checked
    if own.manifest is None:
        sizes = paper_slides.QUICK if quick else paper_slides.FULL
        return paper_slides.run_simulated_slides(out, sizes, watch, device=device)
    return paper_slides.run_real_slides(
        own.work or out / "work",
        _source(own),
        quick=quick,
        cancer=None if own.cancer is None else own.cancer.upper(),
        progress=watch,
    )


def _source(own: OwnSlides) -> SlideSource:
    from fedcox.paper.slide_embedding import EncoderChoice
    from fedcox.paper.slide_pipeline import SlideSource
    from fedcox.slides.tiling import Tiling

    given: Any = own
    return SlideSource(
        given.manifest,
        given.patients,
        Tiling(),
        EncoderChoice(own.weights, own.onnx, device=given.device),
        features=own.features,
    )


def _show(study: SlideStudy, out: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from fedcox.cli.terminal import Terminal
    from fedcox.paper.slide_study import claims

    console = Terminal()
    title = "Simulated slides: what was found" if study.simulated else "What was found"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("statement", "measured", "held"):
        table.add_column(name)
    for claim in claims(study):
        table.add_row(escape(claim.statement), claim.measured, "yes" if claim.held else "NO")
    console.print(table)
    console.print(f"The page to read: {escape(str(out / _PAGE))}", soft_wrap=True)
