"""From slides on disk to patients with features: the same steps as the commands, in order.

Each step skips what is done, so a run that was stopped goes on where it was. Slides are
embedded on all cores: one process and one thread each, or on one GPU. Small products of a
network gain little from several threads, and lose much where the threads have to wait for each
other; slides are independent, so each process takes some of them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from fedcox.errors import InputError, SlideError
from fedcox.evaluation.workers import end_with_parent
from fedcox.slides.cohorts import SlideCohorts, slide_cohorts
from fedcox.slides.embedding import embed_slides
from fedcox.slides.encoder import (
    AbstractEncoder,
    Device,
    Precision,
    load_encoder,
    usual_batch,
    usual_readers,
)
from fedcox.slides.manifest import ManifestRow, OutcomeColumns, PatientTable, SlideManifest
from fedcox.slides.step import StepOutcome, StepProgress, Watch, run_step
from fedcox.slides.tiling import Segmentation, Tiling

#: Slides that a process takes at a time.
_TAKEN = 8
#: Hears the name of the step and where it stands.
PipelineWatch = Callable[[str, StepProgress], None]


@dataclass(frozen=True)
class EncoderChoice:
    """Which encoder, where, and how: one of `weights`, `onnx`, `untrained` (a seed) is given.

    Without `precision` and `batch` they are what suits the device.
    """

    weights: Path | None = None
    onnx: Path | None = None
    untrained: int | None = None
    device: Device = "cpu"
    precision: Precision | None = None
    batch: int | None = None

    def load(self) -> AbstractEncoder:
        return load_encoder(
            weights=self.weights,
            onnx=self.onnx,
            untrained=self.untrained,
            device=self.device,
            precision=self.precision,
        )


def embed_everywhere(
    slides: Sequence[ManifestRow],
    work: Path,
    choice: EncoderChoice,
    watch: Watch = lambda at: None,
    processes: int | None = None,
) -> StepOutcome:
    """Embed what has no features yet; a wrong encoder is told before any process begins."""
    encoder = choice.load()
    batch = choice.batch or usual_batch(choice.device)
    many = min(processes or os.cpu_count() or 1, -(-len(slides) // _TAKEN))
    if choice.device != "cpu" or many < 2:
        readers = usual_readers(choice.device) if choice.device != "cpu" else 0
        return embed_slides(slides, work, encoder, batch=batch, readers=readers, watch=watch)
    del encoder
    parts = [slides[first : first + _TAKEN] for first in range(0, len(slides), _TAKEN)]
    outcomes: list[StepOutcome] = []
    begun = perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(many, context, _begin, (choice,)) as pool:
        waiting = [pool.submit(_embed, part, work, batch) for part in parts]
        try:
            for future in as_completed(waiting):
                outcomes.append(future.result())
                watch(_progress(outcomes, len(slides), perf_counter() - begun))
        except BrokenProcessPool:
            raise InputError(
                "A process that embeds slides came to a sudden end, most likely for want of "
                "memory.",
                ["What is done is kept: go on with --resume."],
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return _together(outcomes, perf_counter() - begun)


_encoder: AbstractEncoder


def _begin(choice: EncoderChoice) -> None:
    """In a new process: one thread, the encoder, and an end with the process that began it."""
    import torch

    global _encoder
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()
    _encoder = choice.load()


def _embed(slides: Sequence[ManifestRow], work: Path, batch: int) -> StepOutcome:
    return embed_slides(slides, work, _encoder, batch=batch, readers=0)


def _progress(outcomes: Sequence[StepOutcome], total: int, seconds: float) -> StepProgress:
    ends = [(*one.made, *one.redone, *one.kept, *one.busy, *one.failed) for one in outcomes]
    kept = sum(len(one.kept) for one in outcomes)
    last = ends[-1][-1] if ends[-1] else ""
    tiles = sum(one.tiles for one in outcomes)
    return StepProgress(last, "made", sum(map(len, ends)), total, kept, tiles, seconds)


def _together(outcomes: Sequence[StepOutcome], seconds: float) -> StepOutcome:
    return StepOutcome(
        tuple(name for one in outcomes for name in one.made),
        tuple(name for one in outcomes for name in one.redone),
        tuple(name for one in outcomes for name in one.kept),
        tuple(name for one in outcomes for name in one.busy),
        {name: reason for one in outcomes for name, reason in one.failed.items()},
        sum(one.tiles for one in outcomes),
        seconds,
    )


@dataclass(frozen=True)
class SlideSource:
    """Slides, their patients, and what turns tiles into features.

    `encoder` makes features; where `features` is given, a folder of them in any layout that is
    read, it is not needed.
    """

    manifest: Path
    patients: Path
    tiling: Tiling
    encoder: EncoderChoice = field(default_factory=EncoderChoice)
    features: Path | None = None
    assume_mpp: float | None = None
    columns: OutcomeColumns | None = None


@dataclass(frozen=True, eq=False)
class EmbeddedSlides:
    """Patients with features; `failed` names slides that fell out, by step, with the reason."""

    manifest: SlideManifest
    patients: SlideCohorts
    failed: dict[str, str]
    seconds: dict[str, float]


def embedded_slides(
    source: SlideSource, work: Path, watch: PipelineWatch = lambda step, at: None
) -> EmbeddedSlides:
    """Segment, tile and embed what is not done yet, and read the patients."""
    manifest = SlideManifest.read(source.manifest)
    outcomes = PatientTable.read(source.patients, source.columns)
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}

    def done(name: str, step: Callable[[], StepOutcome]) -> None:
        begun = perf_counter()
        outcome = step()
        seconds[name] = perf_counter() - begun
        for slide_id, reason in outcome.failed.items():
            failed.setdefault(slide_id, f"{name}: {reason}")

    def watch_step(name: str) -> Callable[[StepProgress], None]:
        return lambda at: watch(name, at)

    slides = manifest.slides
    folder = source.features
    if folder is None:
        folder = work / "features"
        segmentation = Segmentation(assume_mpp=source.assume_mpp)
        done("segment", lambda: run_step(segmentation, slides, work, watch_step("segment")))
        done("tile", lambda: run_step(source.tiling, slides, work, watch_step("tile")))
        done(
            "embed", lambda: embed_everywhere(slides, work, source.encoder, watch_step("embed"))
        )
    if len(failed) == len(slides):
        first_faults = [f"{name}: {reason}" for name, reason in [*failed.items()][:8]]
        raise SlideError("None of the slides could be embedded.", first_faults)
    patients = slide_cohorts(manifest, outcomes, folder)
    for slide_id, reason in patients.failures.items():
        failed.setdefault(slide_id, reason)
    return EmbeddedSlides(manifest, patients, failed, seconds)
