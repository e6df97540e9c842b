"""What does a slide model say of new slides? A score of each, and its patient's risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedcox.errors import InputError
from fedcox.models.network import score_precision
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.model import SlideModel
from fedcox.slides.opened_bag import OpenedBag
from fedcox.slides.tile_scores import check_mean
from fedcox.study.trained_network import PatientScore

if TYPE_CHECKING:
    import pandas as pd


def predictions(
    model: SlideModel,
    manifest: SlideManifest,
    bags: Mapping[str, OpenedBag],
    patient_score: PatientScore,
    at: Sequence[float],
) -> pd.DataFrame:
    """One row per slide; a patient's risk and survival stand in each of the own rows.

    The mean of every slide's tile scores is held against its score.
    """
    import pandas as pd

    own = _with_bags(manifest, bags)
    cohort = model.cohort([[bags[row.slide_id] for row in rows] for rows in own.values()])
    network = model.network
    scores = network.slide_scores(cohort)
    risk = network.risk(cohort, patient_score).tolist()
    times = list(dict.fromkeys(at))
    _check_times(times, float(network.edges[-1]))
    survival = network.survival(cohort, patient_score, times).tolist()
    names = [f"survival_{time:g}" for time in times]
    lines = [
        {
            "patient_id": patient,
            "center": row.center,
            "slide_id": row.slide_id,
            "tiles": _checked_tiles(model, row.slide_id, bags[row.slide_id], score),
            "slide_score": score,
            "patient_risk": risk[place],
            **dict(zip(names, survival[place], strict=True)),
        }
        for place, (patient, rows) in enumerate(own.items())
        for row, score in zip(rows, scores[place].tolist(), strict=True)
    ]
    return pd.DataFrame(lines)


def _with_bags(
    manifest: SlideManifest, bags: Mapping[str, OpenedBag]
) -> dict[str, list[ManifestRow]]:
    """The slides of every patient that can be scored; patients without one are left out."""
    own = {
        patient: [row for row in rows if row.slide_id in bags]
        for patient, rows in manifest.patients.items()
    }
    return {patient: rows for patient, rows in own.items() if rows}


def _checked_tiles(model: SlideModel, slide_id: str, bag: OpenedBag, score: float) -> int:
    """How many tiles the slide has; their scores must have the slide's as their mean."""
    tiles = model.tile_scores(bag)
    check_mean(slide_id, tiles, score, score_precision(model.network.network.precision))
    return tiles.size


def _check_times(at: list[float], horizon: float) -> None:
    beyond = [time for time in at if not 0 <= time <= horizon * (1 + 1e-9)]
    if beyond:
        raise InputError(
            f"The model follows patients up to {horizon:g}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
