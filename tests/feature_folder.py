"""Simulated features of slides on disk with their two tables, and no pictures beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedcox.slides.bag_file import BagFacts, read_bag, write_bag
from fedcox.survival.cohort import FloatArray

PATIENTS, FEATURES, TILES, SIDE = 24, 5, 12, 64
REDUCER = "r" * 64
_FACTS = BagFacts(
    "",
    "reduced",
    mpp=1.0,
    tile_px=SIDE,
    tile_um=float(SIDE),
    tile_px_level0=float(SIDE),
    n_tissue_tiles=TILES,
    encoder="made up",
    encoder_sha256="e" * 64,
)


@dataclass(frozen=True)
class FeatureFolder:
    """Patients of three centers; every fourth has two slides."""

    home: Path

    @property
    def manifest(self) -> Path:
        return self.home / "slides.csv"

    @property
    def patients(self) -> Path:
        return self.home / "patients.csv"

    @property
    def features(self) -> Path:
        return self.home / "reduced"

    def train(self, *more: str | Path, features: Path | None = None) -> list[str | Path]:
        """Words of a training that works."""
        given = features or self.features
        files: list[str | Path] = ["--patients", self.patients, "--features", given]
        short = ["--width", "300", "--epochs", "1", "--hidden", "4"]
        return ["slides", "train", self.manifest, *files, *short, *more]

    def predict(
        self, model: Path, *more: str | Path, features: Path | None = None
    ) -> list[str | Path]:
        """Words of predictions."""
        given = features or self.features
        return ["slides", "predict", model, self.manifest, "--features", given, *more]

    def changed(self, name: str, *, factor: float = 1.0, reducer: str | None = None) -> Path:
        """A copy of the features beside them: times `factor`, of another reducer."""
        for path in self.features.iterdir():
            bag = read_bag(path)
            own = bag.facts.reducer_sha256 if reducer is None else reducer
            facts = replace(bag.facts, reducer_sha256=own)
            write_bag(self.home / name / path.name, facts, bag.coords, factor * bag.read())
        return self.home / name


def feature_folder(home: Path, reducer: str = REDUCER) -> FeatureFolder:
    """The more planted tiles a patient's slides have, the higher the hazard."""
    rng, made = np.random.default_rng(4), FeatureFolder(home)
    slides, outcomes = ["slide_id,patient_id,center,path"], ["patient_id,time,event"]
    for number in range(PATIENTS):
        share = rng.uniform()
        time = 1 + int(1000 * rng.exponential() * np.exp(2 - 4 * share))
        outcomes.append(f"p{number},{min(time, 1500)},{int(time <= 1500)}")
        for letter in "ab" if number % 4 == 0 else "a":
            name = f"s{number}{letter}"
            slides.append(f"{name},p{number},center{number % 3},")
            facts = replace(_FACTS, slide_id=name, reducer_sha256=reducer)
            write_bag(made.features / f"{name}.h5", facts, corners(), tiles(rng, share))
    made.manifest.write_text("\n".join(slides), encoding="utf-8")
    made.patients.write_text("\n".join(outcomes), encoding="utf-8")
    return made


def corners() -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Twelve places on a grid."""
    return np.array([(SIDE * (n % 4), SIDE * (n // 4)) for n in range(TILES)], np.int32)


def tiles(rng: np.random.Generator, share: float) -> FloatArray:
    """Of which about this share is planted."""
    made = rng.normal(size=(TILES, FEATURES))
    made[rng.random(TILES) < share, 0] += 2.0
    return made
