"""From slides on disk to patients with features: the same steps as the commands, in order.

Each step skips what is done, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from fedcox.errors import SlideError
from fedcox.paper.slide_embedding import EncoderChoice, embed_everywhere
from fedcox.slides.cohorts import SlideCohorts, slide_cohorts
from fedcox.slides.manifest import OutcomeColumns, PatientTable, SlideManifest
from fedcox.slides.step import StepOutcome, StepProgress, run_step
from fedcox.slides.tiling import Segmentation, Tiling

#: Hears the name of the step and where it stands.
Watch = Callable[[str, StepProgress], None]


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
    source: SlideSource, work: Path, watch: Watch = lambda step, at: None
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

    def told(name: str) -> Callable[[StepProgress], None]:
        return lambda at: watch(name, at)

    slides = manifest.slides
    folder = source.features
    if folder is None:
        folder = work / "features"
        segmentation = Segmentation(assume_mpp=source.assume_mpp)
        done("segment", lambda: run_step(segmentation, slides, work, told("segment")))
        done("tile", lambda: run_step(source.tiling, slides, work, told("tile")))
        done("embed", lambda: embed_everywhere(slides, work, source.encoder, told("embed")))
    if len(failed) == len(slides):
        told_first = [f"{name}: {reason}" for name, reason in [*failed.items()][:8]]
        raise SlideError("None of the slides could be embedded.", told_first)
    patients = slide_cohorts(manifest, outcomes, folder)
    for slide_id, reason in patients.failures.items():
        failed.setdefault(slide_id, reason)
    return EmbeddedSlides(manifest, patients, failed, seconds)
