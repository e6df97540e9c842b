"""The paper's section 6.3: survival from whole slides, DT-FL against MINI.

Without slides of one's own the whole way is gone on simulated ones: pyramids are written to
disk and segmented, tiled and embedded by an untrained ResNet-50. A share of each patient's
tissue is planted and raises the hazard, so that both the ranking of patients and the map of a
slide can be held against the truth. They say that the way works, not how well slides predict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from fedcox.errors import OutputError
from fedcox.evaluation.result import Row, library_versions
from fedcox.files.writing import whole_file
from fedcox.paper.reproduction import Progress, silent
from fedcox.paper.slide_experiment import JudgedFold, SlidePatients, SlideRecipe, judged_folds
from fedcox.paper.slide_pipeline import (
    EmbeddedSlides,
    EncoderChoice,
    SlideSource,
    embedded_slides,
)
from fedcox.paper.slide_study import HeldOutSlide, SlideStudy, TileRanking, planted_auc
from fedcox.slides.encoder import Device
from fedcox.slides.feature_files import OpenedBag
from fedcox.slides.simulated_slides import SimulatedSlides, read_simulated, simulate_slides
from fedcox.slides.step import StepProgress
from fedcox.slides.tile_scores import ScoredTiles
from fedcox.slides.tiling import Tiling
from fedcox.slides.tissue import Region
from fedcox.survival.cohort import BoolArray

#: Held-out slides that are drawn.
_EXAMPLES = 4
#: The share of planted tiles in simulated slides that are drawn: enough of both kinds.
_SHOWN = 0.2, 0.6
#: Of a tile, so much must be planted for it to count as planted.
_PLANTED = 0.5
FOLDS = 5


@dataclass(frozen=True)
class SimulatedSizes:
    """How many patients are simulated, how their slides are cut, and how many runs.

    Slides are `size_px` pixels wide at one micrometre each. The encoder is untrained, so tiles
    of `tile_px` pixels, as wide as the blocks that are planted, are enough. `effect` is the log
    hazard between a patient with all tissue planted and one with none. Effect and `reduced`
    were chosen on the seeds 101 to 103, so that so few patients show the signal; the paper
    reduces to 256.
    """

    patients: int
    size_px: int
    runs: int
    tile_px: int = 32
    centers: int = 4
    effect: float = 10.0
    reduced: int = 32
    seed: int = 0


FULL = SimulatedSizes(patients=300, size_px=768, runs=5)
QUICK = SimulatedSizes(patients=130, size_px=416, runs=1)


def run_simulated_slides(
    folder: Path, sizes: SimulatedSizes, progress: Progress = silent, *, device: Device = "cpu"
) -> SlideStudy:
    """Simulate slides in `folder` and go the whole way; what is there already is used again.

    Tiles are encoded on `device`.
    """
    begun = perf_counter()
    simulated = _simulated(folder / "simulated", sizes, progress)
    drawing = perf_counter() - begun
    source = SlideSource(
        simulated.manifest,
        simulated.patients,
        Tiling(float(sizes.tile_px), 1.0),
        # Single precision is the same on every processor, and quick for small tiles.
        EncoderChoice(untrained=sizes.seed, precision="float32", batch=128)
        if device == "cpu"
        else EncoderChoice(untrained=sizes.seed, device=device),
    )
    settings = {
        "simulated": asdict(sizes),
        "slides_words": (
            f"Slides are simulated: {sizes.patients} patients, tiled JPEG pyramids of "
            f"{sizes.size_px} × {sizes.size_px} pixels at 1 µm, tissue on glass with a "
            "stain of each center's own. Between 0 and 60 % of a patient's tissue is planted, "
            f"bluish with dense nuclei; the log hazard is {sizes.effect:g} times that share. "
            "That effect, and to how many features tiles are reduced, were chosen on other "
            "seeds than the run's so that so few patients show the signal; sizes, by the time "
            "that it takes."
        ),
        "encoder_words": "Tiles are encoded by a ResNet-50 with random weights, never trained.",
    }
    return _study(
        source,
        folder / "work",
        SlideRecipe(reduced=sizes.reduced),
        settings,
        runs=sizes.runs,
        planted=simulated.planted,
        cancer=None,
        seconds={"simulate": drawing},
        progress=progress,
    )


def run_real_slides(
    work: Path,
    source: SlideSource,
    *,
    quick: bool,
    cancer: str | None = None,
    progress: Progress = silent,
) -> SlideStudy:
    """The paper's experiment on slides of one's own; `quick` makes one run of folds."""
    given = source.encoder.weights or source.encoder.onnx or source.features
    settings = {
        "slides_words": f"Slides are those of {source.manifest.name}.",
        "encoder_words": f"Features come from {given.name if given else 'nowhere'}.",
    }
    return _study(
        source,
        work,
        SlideRecipe(),
        settings,
        runs=1 if quick else 5,
        planted=None,
        cancer=cancer,
        seconds={},
        progress=progress,
    )


def _simulated(folder: Path, sizes: SimulatedSizes, progress: Progress) -> SimulatedSlides:
    """Written once; a folder with a manifest is whole."""
    about = folder / "sizes.json"
    wanted = json.dumps(asdict(sizes))
    if (folder / "slides.csv").exists():
        if not about.exists() or about.read_text(encoding="utf-8") != wanted:
            raise OutputError(
                f"{folder} holds simulated slides of other sizes.",
                ["Say --overwrite to begin again, or choose another folder."],
            )
        return read_simulated(folder)
    with whole_file(about) as part:
        part.write_text(wanted, encoding="utf-8")
    return simulate_slides(
        folder,
        sizes.patients,
        sizes.centers,
        sizes.seed,
        size_px=sizes.size_px,
        mpp=1.0,
        effect=sizes.effect,
        wrote=lambda done, total: progress(done, total, "simulating slides"),
    )


def _study(
    source: SlideSource,
    work: Path,
    recipe: SlideRecipe,
    settings: dict[str, Any],
    *,
    runs: int,
    planted: Mapping[str, Region] | None,
    cancer: str | None,
    seconds: dict[str, float],
    progress: Progress,
) -> SlideStudy:
    def watch(step: str, at: StepProgress) -> None:
        progress(at.done, at.total, step)

    embedded = embedded_slides(source, work, watch)
    patients = SlidePatients(embedded.patients.cohorts, embedded.patients.slide_ids)
    seconds = {**seconds, **embedded.seconds}
    rows: list[Row] = []
    rankings: list[TileRanking] = []
    examples: tuple[HeldOutSlide, ...] = ()
    for judged in judged_folds(
        patients, recipe, folds=FOLDS, seeds=range(runs), progress=progress
    ):
        rows += judged.rows
        for step, spent in judged.seconds.items():
            seconds[step] = seconds.get(step, 0.0) + spent
        bags = embedded.patients.opened.bags
        rankings += tile_rankings(judged, bags, planted or {})
        examples = examples or held_out_examples(judged, embedded, planted)
    return SlideStudy(
        simulated=planted is not None,
        cancer=cancer,
        patients=sum(cohort.patients for cohort in patients.cohorts.values()),
        events=sum(int(cohort.event.sum()) for cohort in patients.cohorts.values()),
        slides=len(embedded.patients.opened.bags),
        tiles=sum(
            cohort.bags.tiles for cohort in patients.cohorts.values() if cohort.bags is not None
        ),
        centers={name: cohort.patients for name, cohort in patients.cohorts.items()},
        settings={**settings, **_settings(source, recipe, patients, embedded)},
        rows=tuple(rows),
        rankings=tuple(rankings),
        seconds=seconds,
        versions=_versions(),
        examples=examples,
    )


def _versions() -> dict[str, str]:
    """With the libraries that read slides and compute features."""
    versions = library_versions()
    for name in ("torch", "openslide-python", "openslide-bin", "pillow", "h5py"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _settings(
    source: SlideSource, recipe: SlideRecipe, patients: SlidePatients, embedded: EmbeddedSlides
) -> dict[str, Any]:
    tiling = source.tiling
    size = recipe.batch_size(patients.cohorts)
    notes = []
    if embedded.failed:
        notes.append(f"{len(embedded.failed)} slide(s) could not be used and are left out.")
    if embedded.patients.patients_without_slide:
        count = len(embedded.patients.patients_without_slide)
        notes.append(f"{count} patient(s) have no slide that can be used and are left out.")
    return {
        "tile_um": tiling.tile_um,
        "tile_px": tiling.tile_px,
        "mpp": tiling.mpp,
        "max_tiles": tiling.max_tiles,
        "encoder": embedded.patients.opened.encoder,
        "width": recipe.width,
        "unit": "days",
        "link": "logit",
        "censored_interval": "exclude",
        "epochs": recipe.epochs,
        "batch_words": (
            f"about {recipe.batch_rows} stacked rows each, which is {size} patients with all "
            "their intervals"
        ),
        "learning_rate": recipe.learning_rate,
        "reduced": recipe.reduced,
        "whitened": recipe.whitened,
        "mini_batch_size": recipe.mini.batch_size,
        "mini_epochs": recipe.mini.epochs,
        "failed": len(embedded.failed),
        "notes": notes,
    }


def tile_rankings(
    judged: JudgedFold, bags: Mapping[str, OpenedBag], planted: Mapping[str, Region]
) -> list[TileRanking]:
    """How well each slide's scores tell planted tiles from others, where there are both."""
    rankings = []
    for slide_id, scores in judged.scores.items():
        if slide_id not in planted:
            continue
        truth = _planted_tiles(planted[slide_id], bags[slide_id])
        auc = planted_auc(scores, truth)
        if auc is not None:
            rankings.append(
                TileRanking(
                    judged.seed, judged.fold, slide_id, int(truth.sum()), truth.size, auc
                )
            )
    return rankings


def _planted_tiles(region: Region, bag: OpenedBag) -> BoolArray:
    corners = np.zeros((0, 2)) if bag.coords is None else bag.coords
    side = bag.tile_px_level0 or 1.0
    return np.asarray(region.share(corners.astype(np.int32), side) >= _PLANTED)


def held_out_examples(
    judged: JudgedFold, embedded: EmbeddedSlides, planted: Mapping[str, Region] | None
) -> tuple[HeldOutSlide, ...]:
    """The first test slides by name; of simulated ones, those with both kinds of tiles."""
    rows = {row.slide_id: row for row in embedded.manifest.slides}
    examples: list[HeldOutSlide] = []
    for slide_id in sorted(judged.scores):
        bag, path = embedded.patients.opened.bags[slide_id], rows[slide_id].path
        if bag.coords is None or path is None or bag.tile_px_level0 is None:
            continue
        truth = np.zeros(len(bag.coords), dtype=np.bool_)
        if planted is not None:
            truth = _planted_tiles(planted[slide_id], bag)
            if not _SHOWN[0] <= truth.mean() <= _SHOWN[1]:
                continue
        scores = judged.scores[slide_id]
        entered = np.ones(scores.size, dtype=np.bool_)
        tiles = ScoredTiles(slide_id, bag.coords, bag.tile_px_level0, scores, entered)
        examples.append(HeldOutSlide(tiles, judged.scale, "logit", judged.fold, truth, path))
        if len(examples) == _EXAMPLES:
            break
    return tuple(examples)
