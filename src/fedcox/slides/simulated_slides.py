"""A folder of simulated slides with a planted signal: pyramids, slides.csv, patients.csv.

The slides go through the same steps as a scanner's. planted.json beside them says where the
regions lie that raise the hazard, so that what a model finds can be held against the truth.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import SlideError
from fedcox.files.writing import whole_file
from fedcox.slides.pyramid_file import write_pyramid
from fedcox.slides.region import Region
from fedcox.slides.simulated_cohort import SimulatedCohort, simulate_cohort
from fedcox.slides.simulated_tissue import draw_slide

SCHEMA = "fedcox-planted-1"
_PLANTED = "planted.json"
_STAIN = 5


@dataclass(frozen=True, eq=False)
class SimulatedSlides:
    """Where the files are and, as truth, where the planted regions lie.

    `planted` is by slide_id, `shares` by patient_id: the planted share that the hazard follows.
    """

    manifest: Path
    patients: Path
    planted: Mapping[str, Region]
    shares: Mapping[str, float]


def simulate_slides(
    folder: str | Path,
    patients: int = 60,
    centers: int = 3,
    seed: int = 0,
    *,
    size_px: int = 1024,
    mpp: float = 1.0,
    effect: float = 6.0,
    wrote: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedSlides:
    """Write the folder; the same arguments give the same bytes.

    Slides are `size_px` square at `mpp` micrometres per pixel. `wrote` is told slides done and
    in all.
    """
    home = Path(folder)
    (home / "slides").mkdir(parents=True, exist_ok=True)
    cohort = simulate_cohort(
        patients, centers, effect=effect, rng=np.random.default_rng([seed, 0])
    )
    stains = np.random.default_rng([seed, 1]).integers(-_STAIN, _STAIN + 1, (centers, 3))
    rows = _slides(cohort)
    planted: dict[str, Region] = {}
    for done, (patient, which) in enumerate(rows, 1):
        drawn = draw_slide(
            size_px,
            mpp,
            float(cohort.share[patient]),
            stain=tuple(stains[cohort.center[patient]].tolist()),
            rng=np.random.default_rng([seed, 2, patient, which]),
        )
        name = _slide_id(patient, which)
        with whole_file(home / "slides" / f"{name}.tiff") as part:
            write_pyramid(part, drawn.pixels, mpp, description="simulated slide, no patient")
        planted[name] = drawn.planted
        wrote(done, len(rows))
    _write_table(home / "patients.csv", _patient_table(cohort))
    shares = {_patient_id(patient): float(share) for patient, share in enumerate(cohort.share)}
    about = {"seed": seed, "effect": effect, "shares": shares}
    _write_planted(home / _PLANTED, planted, about)
    # Last: a folder with a manifest is whole.
    _write_table(home / "slides.csv", _slide_table(cohort))
    return SimulatedSlides(home / "slides.csv", home / "patients.csv", planted, shares)


def read_simulated(folder: str | Path) -> SimulatedSlides:
    """A folder that `simulate_slides` wrote."""
    home = Path(folder)
    try:
        told = json.loads((home / _PLANTED).read_text(encoding="utf-8"))
        planted = {name: _region(slide) for name, slide in told[SCHEMA].items()}
        shares = {str(name): float(share) for name, share in told["shares"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SlideError(
            f"{home} is not a folder of simulated slides: {_PLANTED} cannot be read.",
            ["Write one with: fedcox slides simulate"],
        ) from error
    return SimulatedSlides(home / "slides.csv", home / "patients.csv", planted, shares)


def is_simulated(manifest: Path) -> bool:
    """Whether a manifest lists slides that `simulate_slides` wrote."""
    return (manifest.parent / _PLANTED).exists()


def _slides(cohort: SimulatedCohort) -> list[tuple[int, int]]:
    """(patient, which of the patient's slides), both from 0."""
    return [
        (patient, which) for patient, many in enumerate(cohort.slides) for which in range(many)
    ]


def _patient_id(patient: int) -> str:
    return f"simulated-{patient + 1:04d}"


def _slide_id(patient: int, which: int) -> str:
    return f"{_patient_id(patient)}-{'ab'[which]}"


def _slide_table(cohort: SimulatedCohort) -> list[tuple[str, ...]]:
    rows = [
        (
            _slide_id(patient, which),
            _patient_id(patient),
            f"center-{cohort.center[patient] + 1}",
            f"slides/{_slide_id(patient, which)}.tiff",
        )
        for patient, which in _slides(cohort)
    ]
    return [("slide_id", "patient_id", "center", "path"), *rows]


def _patient_table(cohort: SimulatedCohort) -> list[tuple[str, ...]]:
    rows = [
        (_patient_id(patient), str(days), str(int(event)))
        for patient, (days, event) in enumerate(zip(cohort.days, cohort.event, strict=True))
    ]
    return [("patient_id", "time", "event"), *rows]


def _write_table(path: Path, rows: list[tuple[str, ...]]) -> None:
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _write_planted(path: Path, planted: Mapping[str, Region], about: Mapping[str, Any]) -> None:
    """Blocks as level-0 pixels of their upper left corners."""
    told = {
        "about": "simulated slides, no patients; the regions that raise the hazard",
        **about,
        SCHEMA: {
            name: {
                "block_px": region.downsample,
                "blocks": list(region.pixels.shape),
                "planted": [
                    [round(column * region.downsample), round(row * region.downsample)]
                    for row, column in np.argwhere(region.pixels).tolist()
                ],
            }
            for name, region in planted.items()
        },
    }
    with whole_file(path) as part:
        part.write_text(json.dumps(told) + "\n", encoding="utf-8")


def _region(slide: Mapping[str, Any]) -> Region:
    block = float(slide["block_px"])
    pixels = np.zeros(tuple(slide["blocks"]), bool)
    for x, y in slide["planted"]:
        pixels[round(y / block), round(x / block)] = True
    return Region(pixels, block)
