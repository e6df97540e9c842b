"""Invented tile features: few directions, noise, and a mean that differs between centers."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort


def shifted_tiles(
    tiles: int, features: int = 48, seed: int = 0, shift: float = 0.0
) -> NDArray[np.float16]:
    """(tiles, features) as encoders end in: mostly positive, falling in size."""
    directions, mean = _common(features)
    own = np.random.default_rng([seed, 7])
    values = own.normal(size=(tiles, features)) @ directions + mean * (4 + 0.2 * shift)
    return (values + own.normal(0.0, 0.02, (tiles, features))).astype(np.float16)


@cache
def _common(features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Directions in which tiles vary, of falling size, and their mean."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(features, features)) * 0.7 ** np.arange(features)[:, None]
    return directions, np.abs(rng.normal(1.0, 0.5, features))


def tiled_cohort(patients: int = 30, features: int = 48, seed: int = 0) -> Cohort:
    """Patients with one to three slides of 3 to 60 tiles."""
    rng = np.random.default_rng(seed)
    slides = []
    for patient in range(patients):
        own = []
        for number in range(int(rng.integers(1, 4))):
            size, key = int(rng.integers(3, 60)), 1000 * patient + number
            own.append(SlideArray(shifted_tiles(size, features, key, shift=patient % 3)))
        slides.append(tuple(own))
    return Cohort(
        np.empty((patients, 0)),
        rng.exponential(100.0, patients),
        rng.random(patients) < 0.5,
        bags=Bags(tuple(slides), features),
    )


def all_tiles(cohort: Cohort) -> NDArray[np.float64]:
    """Every tile of a cohort, in double precision."""
    assert cohort.bags is not None
    read = [slide.read() for own in cohort.bags.slides for slide in own]
    return np.concatenate(read).astype(np.float64)


def subspace_gap(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Sine of the largest angle between the spaces of two bases."""
    first, second = np.linalg.qr(left)[0], np.linalg.qr(right)[0]
    return float(np.linalg.norm(second - first @ (first.T @ second), 2))


def lost(tiles: NDArray[np.float64], basis: NDArray[np.float64]) -> float:
    """Part of the sum of squares outside of an orthonormal basis."""
    return float(1 - np.square(tiles @ basis).sum() / np.square(tiles).sum())
