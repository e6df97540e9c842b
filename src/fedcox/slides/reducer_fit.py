"""Use the reducer that belongs to these slides, or fit it: on one machine, over all centers.

The paper's autoencoder stands here beside the exact reduction, to compare with.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, InputError, WeightsError
from fedcox.slides.cohorts import OpenedBags
from fedcox.slides.manifest import ManifestRow, SlideManifest, read_patient_names
from fedcox.slides.reduction import (
    Method,
    Reducer,
    ReducerFacts,
    Reduction,
    check_numbers,
    check_size,
    cohorts_without_outcomes,
    federated_reducer,
    read_reducer,
    write_reducer,
)
from fedcox.survival.bags import SlideFeatures, TileFeatures
from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import AdamDescent

Watch = Callable[[str, int, int], None]
"""What is done, and how many slides of how many; of none where slides do not count."""
#: Tiles in the paper's sample, its epochs and its learning rate; batches it does not tell.
SAMPLE = 100_000
EPOCHS = 3
LEARNING_RATE = 1e-3
BATCH = 256


@dataclass(frozen=True, eq=False)
class ChosenReducer:
    """A reducer, where it lies, and whether it was there before."""

    reducer: Reducer
    path: Path
    kept: bool


@dataclass(frozen=True)
class ReducerChoice:
    """The options of `fedcox slides reduce` that say which reducer.

    `seed` is for the autoencoder's tiles and first weights. `patients` names those to fit on,
    all without it; with `given` nothing is fitted.
    """

    size: int = 256
    method: Method = "pca"
    whitened: bool = False
    seed: int = 0
    patients: Path | None = None
    given: Path | None = None

    def __post_init__(self) -> None:
        if self.given is not None and (self.patients is not None or self.whitened):
            raise InputError("--reducer is fitted already; leave out --patients and --whiten.")

    def training(self, listed: SlideManifest) -> Sequence[ManifestRow]:
        """The slides to fit on; every patient who is named must have one."""
        if self.patients is None:
            return listed.slides
        names = read_patient_names(self.patients)
        without = len(names - set(listed.patients))
        if without:
            raise CohortError(
                f"Cannot fit on the patients in {self.patients}.",
                [
                    f"{without} of {len(names)} patients have no slide in the manifest. Leave "
                    "them out, or write their patient_id as the manifest does."
                ],
            )
        return listed.of_patients(names).slides

    def reducer(
        self, target: Path, training: Sequence[ManifestRow], opened: OpenedBags, watch: Watch
    ) -> ChosenReducer:
        """The one that is given, or the one at `target`, fitted on these slides and no others.

        It is written whole. One of other slides, features or settings is fitted anew.
        """
        if self.given is not None:
            return ChosenReducer(given_reducer(self.given, opened), self.given, kept=True)
        settings = self._settings(training, opened)
        with suppress(WeightsError):
            kept = read_reducer(target) if target.exists() else None
            if kept is not None and kept.facts.settings == settings:
                return ChosenReducer(kept, target, kept=True)
        encoder, weights = opened.encoder or "", opened.encoder_sha256 or ""
        plan = Reduction(opened.features, self.size, self.whitened, encoder, weights)
        if self.method == "pca":
            watched = _counted(training, opened, watch)
            centers = InProcess.from_cohorts(cohorts_without_outcomes(training, watched))
            reducer = federated_reducer(plan, centers, settings)
        else:
            used = [slide for slide in training if slide.slide_id in opened.bags]
            reducer = _autoencoder(plan, used, opened, self.seed, settings, watch)
        write_reducer(target, reducer)
        return ChosenReducer(reducer, target, kept=False)

    def _settings(self, slides: Sequence[ManifestRow], opened: OpenedBags) -> str:
        """A digest of all that the fit depends on, but in which order and center slides are."""
        used = sorted(
            (slide.slide_id, slide.patient_id, opened.bags[slide.slide_id].digest)
            for slide in slides
            if slide.slide_id in opened.bags
        )
        settings = {
            "size": self.size,
            "method": self.method,
            "whitened": self.whitened,
            "seed": self.seed if self.method == "adam" else None,
            "slides": used,
        }
        return sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def given_reducer(path: Path, opened: OpenedBags) -> Reducer:
    """A reducer that was fitted before, such as a model's, for other patients' slides."""
    reducer = read_reducer(path)
    faults = []
    if reducer.features != opened.features:
        faults.append(
            f"It takes {reducer.features} features per tile, and these slides have "
            f"{opened.features}."
        )
    for words, fitted, given in (
        ("on features of the encoder", reducer.facts.encoder, opened.encoder),
        ("with encoder weights", reducer.facts.encoder_sha256, opened.encoder_sha256),
    ):
        if fitted and given and fitted != given:
            faults.append(f"It was fitted {words} {fitted}, and these are of {given}.")
    if faults:
        raise InputError(f"The reducer {path} does not fit these slides.", faults)
    return reducer


def _autoencoder(
    plan: Reduction,
    used: Sequence[ManifestRow],
    opened: OpenedBags,
    seed: int,
    settings: str,
    watch: Watch,
) -> Reducer:
    """The paper's, on tiles of all centers in one place; in the order of slides' names."""
    names = sorted(slide.slide_id for slide in used)
    bags = [opened.bags[name].features for name in names]
    patients = len({slide.patient_id for slide in used})
    check_numbers(plan, patients, sum(bag.shape[0] for bag in bags))
    watch("drawing tiles", 0, 0)
    sample = sampled_tiles(bags, seed=seed)
    trained = train_autoencoder(
        sample,
        plan.size,
        seed=seed,
        watch=lambda epoch, error: watch(f"epoch {epoch}: error {error:.4f}", 0, 0),
    )
    facts = ReducerFacts(
        "adam",
        len(sample),
        patients,
        trained.errors[-1],
        plan.whitened,
        plan.encoder,
        plan.encoder_sha256,
        settings,
    )
    return trained.reducer(sample, facts)


@dataclass(frozen=True, eq=False)
class _CountedSlide:
    """A slide that says when it is read."""

    slide: SlideFeatures
    tell: Callable[[], None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.slide.shape

    def read(self) -> TileFeatures:
        self.tell()
        return self.slide.read()


def _counted(slides: Sequence[ManifestRow], opened: OpenedBags, watch: Watch) -> OpenedBags:
    """The same bags; as they are read for the fit, `watch` is told how many were."""
    count = itertools.count()
    total = sum(slide.slide_id in opened.bags for slide in slides)

    def tell() -> None:
        watch("summing moments of tiles", next(count), total)

    bags = {
        slide_id: replace(bag, features=_CountedSlide(bag.features, tell))
        for slide_id, bag in opened.bags.items()
    }
    return replace(opened, bags=bags)


@dataclass(frozen=True, eq=False)
class TrainedAutoencoder:
    """Encoder (features, size), decoder (size, features), and the error after each epoch.

    Errors are relative: squared distance to the tiles over their sum of squares.
    """

    encoder: FloatArray
    decoder: FloatArray
    errors: tuple[float, ...]

    def reducer(self, sample: NDArray[np.float32], facts: ReducerFacts) -> Reducer:
        """The encoder as a reducer; its scales are those of the sample."""
        scales = np.sqrt(np.square(sample @ self.encoder).mean(axis=0))
        return Reducer(self.encoder, scales, facts)


def train_autoencoder(
    sample: NDArray[np.float32],
    size: int,
    *,
    seed: int,
    epochs: int = EPOCHS,
    watch: Callable[[int, float], None] = lambda epoch, error: None,
) -> TrainedAutoencoder:
    """The paper's autoencoder: two layers without bias, by Adam on the mean square error.

    `sample` is (tiles, features). The same seed gives the same weights. Products are in single
    precision, the weights in double. It approaches what `reducer_from_moments` gives at once
    and exactly; it is here to compare with.
    """
    tiles, features = sample.shape
    check_size(size, features)
    rng = np.random.default_rng(seed)
    weights = _first_weights(features, size, rng)
    encoder, decoder = weights.reshape(2, -1)  # views: Adam moves both at once
    down, up = encoder.reshape(features, size), decoder.reshape(size, features)
    adam, slope = AdamDescent(weights.size), np.empty(weights.size)
    errors = []
    for epoch in range(1, epochs + 1):
        order = rng.permutation(tiles)
        for start in range(0, tiles, BATCH):
            batch = sample[order[start : start + BATCH]]
            _gradient(batch, down.astype(np.float32), up.astype(np.float32), slope)
            adam.step(weights, slope, LEARNING_RATE)
        errors.append(_relative_error(sample, down, up))
        watch(epoch, errors[-1])
    return TrainedAutoencoder(down, up, tuple(errors))


def _first_weights(features: int, size: int, rng: np.random.Generator) -> FloatArray:
    """As torch begins linear layers: uniform within ±1/√inputs."""
    parts = [rng.uniform(-1, 1, features * size) / inputs**0.5 for inputs in (features, size)]
    return np.concatenate(parts)


def _gradient(
    batch: NDArray[np.float32],
    down: NDArray[np.float32],
    up: NDArray[np.float32],
    slope: FloatArray,
) -> None:
    """Write the gradient of the mean square error of a batch, encoder first."""
    latent = batch @ down
    left = latent @ up - batch
    left *= 2.0 / left.size
    slope[: down.size] = (batch.T @ (left @ up.T)).ravel()
    slope[down.size :] = (latent.T @ left).ravel()


def sampled_tiles(
    slides: Sequence[SlideFeatures], *, seed: int, most: int = SAMPLE
) -> NDArray[np.float32]:
    """Tiles of all slides drawn by chance without repeats, in the slides' order."""
    counts = np.array([slide.shape[0] for slide in slides])
    total = int(counts.sum())
    if not total:
        raise InputError("There is no tile to train on.")
    drawn = np.sort(np.random.default_rng(seed).choice(total, min(most, total), replace=False))
    ends = np.cumsum(counts)
    parts = []
    for slide, end, tiles in zip(slides, ends, counts, strict=True):
        first, last = np.searchsorted(drawn, [end - tiles, end])
        if last > first:
            parts.append(slide.read()[drawn[first:last] - (end - tiles)].astype(np.float32))
    return np.concatenate(parts)


def _relative_error(sample: NDArray[np.float32], down: FloatArray, up: FloatArray) -> float:
    squares = left = 0.0
    for start in range(0, len(sample), 8192):
        block = sample[start : start + 8192].astype(np.float64)
        squares += float(np.square(block).sum())
        left += float(np.square(block - (block @ down) @ up).sum())
    return left / squares
