"""The slide experiment as it is asked for: of which slides, and the folder that it leaves."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcox.errors import InputError
from fedcox.files.writing import write_json
from fedcox.paper.reproduction import Progress, check_resumable_folder
from fedcox.paper.slide_pipeline import EncoderChoice, SlideSource
from fedcox.paper.slide_study import PAPER_TABLE, SlideStudy
from fedcox.paper.slides import FULL, QUICK, run_real_slides, run_simulated_slides
from fedcox.paper.slides_page import write_slides_page
from fedcox.slides.tiling import Tiling

RECORD, PAGE, MAPS = "slides.json", "slides.html", "heatmap"
#: What is made on the way: kept by --resume.
_ON_THE_WAY = ("simulated", "work")


@dataclass(frozen=True)
class SlidesRequest:
    """Slides as named on the command line; no manifest stands for simulated ones."""

    manifest: Path | None
    patients: Path | None
    weights: Path | None
    onnx: Path | None
    features: Path | None
    work: Path | None
    cancer: str | None
    device: str

    @property
    def simulated(self) -> bool:
        return self.manifest is None

    def check(self) -> None:
        """Refuse options that do not go together, all of them at once."""
        faults = []
        if self.device not in ("cpu", "cuda"):
            faults.append(f"--device {self.device}: it must be cpu or cuda.")
        if self.simulated:
            faults += [
                f"--{name} goes with --slides; without it slides are simulated."
                for name in ("patients", "weights", "onnx", "features", "work", "cancer")
                if getattr(self, name) is not None
            ]
        else:
            if self.patients is None:
                faults.append("--slides needs --patients: patient_id, time, event.")
            encoders = [self.weights, self.onnx, self.features]
            if sum(one is not None for one in encoders) != 1:
                faults.append("--slides needs one of --weights, --onnx and --features.")
            if self.cancer is not None and self.cancer.upper() not in PAPER_TABLE:
                faults.append(f"--cancer: the paper has {', '.join(PAPER_TABLE)}.")
        if faults:
            raise InputError("This experiment on slides is not clear.", faults)


def prepare_folder(out: Path, *, resume: bool, overwrite: bool, simulated: bool) -> None:
    """Refuse a folder in use; with --overwrite remove what an earlier run left.

    What was computed from slides of the user's own on the way is never removed: its steps
    see for themselves what has to be done anew.
    """
    ours = {RECORD, PAGE, MAPS, *_ON_THE_WAY}
    check_resumable_folder(
        out,
        lambda path: path.name in ours,
        overwrite=overwrite,
        resume=resume,
        kept="what is there",
    )
    if overwrite and out.exists():
        gone = {RECORD, PAGE, MAPS, *(_ON_THE_WAY if simulated else ())}
        for path in out.iterdir():
            if path.name in gone:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def run_slides(
    out: Path, request: SlidesRequest, quick: bool, progress: Progress
) -> SlideStudy:
    """The whole experiment on slides of `request`, which was checked."""
    given: Any = request
    if request.simulated:
        sizes = QUICK if quick else FULL
        return run_simulated_slides(out, sizes, progress, device=given.device)
    source = SlideSource(
        given.manifest,
        given.patients,
        Tiling(),
        EncoderChoice(request.weights, request.onnx, device=given.device),
        features=request.features,
    )
    return run_real_slides(
        request.work or out / "work",
        source,
        quick=quick,
        cancer=None if request.cancer is None else request.cancer.upper(),
        progress=progress,
    )


def write_slides(out: Path, study: SlideStudy, *, command: str) -> None:
    """Write the record and the page; the maps are there already."""
    write_json(out / RECORD, {"command": command, **study.to_json()})
    write_slides_page(out / PAGE, study, command=command, heatmaps=out / MAPS)
