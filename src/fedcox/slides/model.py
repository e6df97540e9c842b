"""A trained slide model as it is used: which features it takes, and what it says of slides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcox.errors import InputError, SlideError
from fedcox.models.architecture import TileScorer
from fedcox.models.predictors.network import score_precision
from fedcox.slides.bag_reader import feature_path, open_bag
from fedcox.slides.cohorts import bags_of
from fedcox.slides.feature_files import KnownSlide, OpenedBag
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.step import reason_of
from fedcox.slides.tile_scores import ScoredTiles, ScoreScale, check_mean, matching
from fedcox.study.trained_network import PatientScore, TrainedNetwork
from fedcox.survival.cohort import Cohort, FloatArray

if TYPE_CHECKING:
    import pandas as pd


NETWORK = "network.safetensors"
_UNKNOWN = KnownSlide()


@dataclass(frozen=True, eq=False)
class SlideModel:
    """The paper's tile scorer, trained; `digest` tells its file from all others."""

    network: TrainedNetwork
    architecture: TileScorer
    digest: str

    @classmethod
    def read(cls, folder: str | Path, device: str = "cpu") -> SlideModel:
        """From the folder that `fedcox slides train` wrote, or its network.safetensors."""
        given = Path(folder)
        file = given / NETWORK if given.is_dir() else given
        if not file.exists():
            raise InputError(
                f"{given}: there is no slide model here.",
                ["Give the folder that `fedcox slides train … --out` wrote."],
            )
        network = TrainedNetwork.load(file, device=device)
        if not isinstance(network.architecture, TileScorer):
            raise InputError(
                f"{file} is a {network.architecture.name}, which gives no scores of tiles.",
                ["A tile scorer is needed, as `fedcox slides train` makes it."],
            )
        return cls(network, network.architecture, sha256(file.read_bytes()).hexdigest())

    @property
    def scale(self) -> ScoreScale | None:
        """Of the training cohort's tiles; None where noise forbids to tell it."""
        facts = self.network.facts
        if facts.get("tile_score_centre") is None:
            return None
        return ScoreScale(float(facts["tile_score_centre"]), float(facts["tile_score_reach"]))

    @property
    def simulated(self) -> bool:
        """Whether it was trained on simulated slides."""
        return bool(self.network.facts.get("simulated", False))

    def tile_scores(self, bag: OpenedBag) -> FloatArray:
        """The exact score of every tile: (tiles,)."""
        from fedcox.models.tile_scorer import tile_scores

        scores = tile_scores(bag.features.read(), self.architecture, self.network.theta)
        return self.network.slope * scores

    def bag(self, folder: str | Path, slide_id: str, known: KnownSlide = _UNKNOWN) -> OpenedBag:
        """The features of a slide; SlideError where they are not those of this model."""
        bag = open_bag(feature_path(folder, slide_id), known)
        faults = self._faults(bag)
        if faults:
            raise SlideError(
                "The features are not those that the model was trained on.", faults
            )
        return bag

    def bags(
        self, slides: Sequence[ManifestRow], folder: str | Path
    ) -> tuple[dict[str, OpenedBag], dict[str, str]]:
        """The bags of these slides by name, and of the others the reason; one at least."""
        opened: dict[str, OpenedBag] = {}
        faults: dict[str, str] = {}
        for slide in slides:
            try:
                opened[slide.slide_id] = self.bag(folder, slide.slide_id)
            except SlideError as error:
                faults[slide.slide_id] = reason_of(error)
        if not opened:
            reasons = [f"{slide_id}: {reason}" for slide_id, reason in [*faults.items()][:8]]
            raise SlideError(f"No slide in {folder} can be scored by this model.", reasons)
        return opened, faults

    def _faults(self, bag: OpenedBag) -> list[str]:
        facts, width = self.network.facts, bag.features.shape[1]
        if width != self.architecture.features:
            return [
                f"They are {width} per tile; the model takes {self.architecture.features}. "
                "Reduce them with the reducer that the model was trained with."
            ]
        faults = []
        for name, word in (
            ("encoder", "encoder"),
            ("encoder_sha256", "weights of the encoder"),
            ("reducer_sha256", "reducer"),
        ):
            wanted, there = facts.get(name), getattr(bag, name)
            # Features that were not reduced have the reducer "", which is no other one's.
            if wanted is not None and there is not None and there != wanted:
                faults.append(
                    f"The {word} of the model is {_short(wanted)}, of the features "
                    f"{_short(there)}."
                )
        return faults

    def scored_tiles(
        self,
        folder: str | Path,
        slide_id: str,
        known: KnownSlide = _UNKNOWN,
        every_tile: str | Path | None = None,
    ) -> ScoredTiles:
        """The tiles of a slide with their places and scores.

        `folder` has the features behind the slide's score. With `every_tile`, a folder of more
        tiles, all of these are scored and those that entered the slide's score are marked.
        """
        scored = self.bag(folder, slide_id, known)
        bag = scored if every_tile is None else self.bag(every_tile, slide_id, known)
        corners, side = _places(bag)
        entered = np.ones(len(corners), dtype=np.bool_)
        if every_tile is not None:
            entered = matching(corners, _places(scored)[0])
            if int(entered.sum()) != scored.features.shape[0]:
                raise SlideError(
                    "Tiles that entered the slide's score are not among every tile.",
                    ["Lay tiles with the same --tile-um and --mpp, and a larger --max-tiles."],
                )
        scores = self.tile_scores(bag)
        return ScoredTiles(slide_id, corners, side, scores, entered, bag.tissue_tiles)

    def cohort(self, patients: Sequence[Sequence[OpenedBag]]) -> Cohort:
        """Patients with these slides, whose outcomes are not known: for predictions alone."""
        return Cohort(
            np.empty((len(patients), 0)),
            np.ones(len(patients)),
            np.zeros(len(patients), dtype=np.bool_),
            bags=bags_of(patients, self.architecture.features),
        )


def _places(bag: OpenedBag) -> tuple[FloatArray, float]:
    """Corners of the tiles and their side, in pixels of the finest level."""
    if bag.coords is None:
        reason = bag.no_coords or "The file of features does not tell them."
        raise SlideError("Nobody knows where on the slide the tiles lie.", [reason])
    if bag.tile_px_level0 is None:
        raise SlideError("Nobody knows how large the tiles are on the slide.")
    return bag.coords, bag.tile_px_level0


def _short(name: object) -> str:
    """A digest by its first letters; a name as it is."""
    text = str(name)
    return f"{text[:12]}…" if len(text) == 64 else repr(text)


def predictions(
    model: SlideModel,
    manifest: SlideManifest,
    bags: Mapping[str, OpenedBag],
    patient_score: PatientScore,
    at: Sequence[float],
) -> pd.DataFrame:
    """One row per slide; a patient's risk and survival stand in each of the own rows.

    Patients without a slide that can be scored are left out. The mean of every slide's tile
    scores is held against its score.
    """
    import pandas as pd

    usable = {
        patient: [row for row in rows if row.slide_id in bags]
        for patient, rows in manifest.patients.items()
    }
    of_patient = {patient: rows for patient, rows in usable.items() if rows}
    cohort = model.cohort(
        [[bags[row.slide_id] for row in rows] for rows in of_patient.values()]
    )
    network = model.network
    scores = network.slide_scores(cohort)
    risk = network.risk(cohort, patient_score).tolist()
    times = list(dict.fromkeys(at))
    horizon = float(network.edges[-1])
    beyond = [time for time in times if not 0 <= time <= horizon * (1 + 1e-9)]
    if beyond:
        raise InputError(
            f"The model follows patients up to {horizon:g}.",
            [f"--at {time:g} is outside." for time in beyond],
        )
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
        for place, (patient, rows) in enumerate(of_patient.items())
        for row, score in zip(rows, scores[place].tolist(), strict=True)
    ]
    return pd.DataFrame(lines)


def _checked_tiles(model: SlideModel, slide_id: str, bag: OpenedBag, score: float) -> int:
    """How many tiles the slide has; their scores must have the slide's as their mean."""
    tiles = model.tile_scores(bag)
    check_mean(slide_id, tiles, score, score_precision(model.network.network.precision))
    return tiles.size
