"""The paper's linear autoencoder, trained as the paper does: by Adam on a sample of tiles.

It approaches what `reduction.py` gives at once and exactly; it is here to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides.reduction import Reducer, ReducerFacts, check_size
from fedcox.survival.bags import SlideFeatures
from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import AdamDescent

#: Tiles in the paper's sample, its epochs and its learning rate; batches it does not tell.
SAMPLE = 100_000
EPOCHS = 3
LEARNING_RATE = 1e-3
BATCH = 256


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
    """Two linear layers without bias, by Adam on the mean square error.

    `sample` is (tiles, features). The same seed gives the same weights. Products are in single
    precision, the weights in double.
    """
    tiles, features = sample.shape
    check_size(size, features)
    rng = np.random.default_rng(seed)
    weights = _start(features, size, rng)
    encoder, decoder = weights.reshape(2, -1)  # views: Adam moves both at once
    down, up = encoder.reshape(features, size), decoder.reshape(size, features)
    adam, slope = AdamDescent(weights.size), np.empty(weights.size)
    errors = []
    for epoch in range(1, epochs + 1):
        order = rng.permutation(tiles)
        for start in range(0, tiles, BATCH):
            batch = sample[order[start : start + BATCH]]
            _slope(batch, down.astype(np.float32), up.astype(np.float32), slope)
            adam.step(weights, slope, LEARNING_RATE)
        errors.append(_relative_error(sample, down, up))
        watch(epoch, errors[-1])
    return TrainedAutoencoder(down, up, tuple(errors))


def _start(features: int, size: int, rng: np.random.Generator) -> FloatArray:
    """As torch begins linear layers: uniform within ±1/√inputs."""
    parts = [rng.uniform(-1, 1, features * size) / inputs**0.5 for inputs in (features, size)]
    return np.concatenate(parts)


def _slope(
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
