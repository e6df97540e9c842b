"""What is simulated: patients with slides, and pictures of tissue with regions of risk.

Nothing here is anybody's tissue. Ordinary tissue is pink with few nuclei; planted regions are
bluish with many dark ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from fedcox.errors import InputError
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import Region

BLOCK_UM = 32.0
"""Planted regions are made of squares of this side."""

Field: TypeAlias = NDArray[np.float32]

_TISSUE_SHARE = 0.5
_BLOB_UM = 250.0
_NUCLEUS_UM = 7.0
_NUCLEI = {"ordinary": 0.10, "planted": 0.45}
# Glass, ordinary tissue and its nuclei, planted tissue and its nuclei.
_COLOURS = np.array(
    [[243, 242, 244], [226, 168, 198], [120, 78, 150], [196, 148, 200], [72, 40, 112]], np.int16
)

MOST_PLANTED = 0.6
_CENSORED = 0.4
_MEAN_DAYS = 700.0
_TWO_SLIDES = 1 / 6
_NEXT_CENTER = 0.6


@dataclass(frozen=True, eq=False)
class DrawnSlide:
    """A picture with its truth: `tissue` by the pixel, `planted` by the block."""

    pixels: Pixels
    tissue: Region
    planted: Region


def draw_slide(
    size_px: int,
    mpp: float,
    share: float,
    *,
    stain: tuple[int, int, int] = (0, 0, 0),
    rng: np.random.Generator,
) -> DrawnSlide:
    """A square slide in which `share` of the tissue's blocks are planted.

    `stain` is added to the colours of tissue: laboratories differ.
    """
    tissue = _tissue(size_px, mpp, rng)
    block = max(1, round(BLOCK_UM / mpp))
    blocks = _planted_blocks(tissue, block, share, rng)
    planted = np.kron(blocks, np.ones((block, block), bool))[:size_px, :size_px] & tissue
    nuclei = _field(size_px, _NUCLEUS_UM / mpp, rng)
    some = nuclei[::4, ::4]
    dense = np.quantile(some, 1 - _NUCLEI["planted"])
    sparse = np.quantile(some, 1 - _NUCLEI["ordinary"])
    is_nucleus = nuclei > np.where(planted, dense, sparse)
    kind = tissue * (1 + 2 * planted.astype(np.uint8) + is_nucleus)
    colours = _COLOURS.copy()
    colours[1:] += np.array(stain, np.int16)
    fibres = (24 * (_field(size_px, 40.0 / mpp, rng) - 0.5) * tissue).astype(np.int16)
    grain = rng.integers(-3, 4, (size_px, size_px), dtype=np.int16)
    shaded = colours[kind] + (fibres + grain)[:, :, None]
    return DrawnSlide(
        np.clip(shaded, 0, 255).astype(np.uint8),
        Region(tissue, 1.0),
        Region(blocks, float(block)),
    )


def _field(size: int, spacing: float, rng: np.random.Generator) -> Field:
    """(size, size), smooth, mostly from 0 to 1: random numbers `spacing` apart, joined up."""
    from PIL import Image

    points = max(3, int(np.ceil(size / spacing)) + 1)
    drawn = rng.random((points, points), dtype=np.float32)
    smooth = Image.fromarray(drawn).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(smooth)


def _tissue(size: int, mpp: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Blobs, mostly in the middle; half of the slide."""
    blobs = _field(size, _BLOB_UM / mpp, rng)
    away = np.linspace(-1.0, 1.0, size, dtype=np.float32) ** 2
    height = blobs - 1.5 * (away[:, None] + away[None, :])
    return np.asarray(height > np.quantile(height[::8, ::8], 1 - _TISSUE_SHARE))


def _planted_blocks(
    tissue: NDArray[np.bool_], block: int, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """(rows, columns) of blocks: those of tissue where a smooth field is highest."""
    size = len(tissue)
    many = -(-size // block)
    starts = np.arange(many) * block
    inside = np.add.reduceat(
        np.add.reduceat(tissue.astype(np.int64), starts, axis=0), starts, axis=1
    )
    field = np.where(2 * inside >= block * block, _field(many, 4.0, rng), -np.inf)
    wanted = round(share * int(np.isfinite(field).sum()))
    blocks = np.zeros(field.size, bool)
    blocks[np.argsort(-field, axis=None, kind="stable")[:wanted]] = True
    return blocks.reshape(field.shape)


@dataclass(frozen=True, eq=False)
class SimulatedSlideCohort:
    """One entry per patient; nobody is one.

    `share` is the planted share of the patient's tissue, `center` counts from 0, `slides` is 1
    or 2, `days` is follow-up.
    """

    share: NDArray[np.float64]
    center: NDArray[np.int64]
    slides: NDArray[np.int64]
    days: NDArray[np.int64]
    event: NDArray[np.bool_]


def simulate_cohort(
    patients: int, centers: int, *, effect: float, rng: np.random.Generator
) -> SimulatedSlideCohort:
    """Hazard exp(effect · (share − mean share)), share uniform from 0 to 0.6.

    About 40 % are censored; centers are of unequal size, none empty; a sixth of the patients
    have two slides.
    """
    if not 1 <= centers <= patients:
        raise InputError(
            f"{patients} patients cannot be in {centers} centers.",
            ["Needed is at least one center, and one patient for each."],
        )
    share = rng.uniform(0.0, MOST_PLANTED, patients)
    rate = np.exp(effect * (share - MOST_PLANTED / 2)) / _MEAN_DAYS
    dropping = _censoring_rate(rate)
    survived, seen = rng.exponential(1 / rate), rng.exponential(1 / dropping, patients)
    slides = np.ones(patients, np.int64)
    slides[rng.permutation(patients)[: round(_TWO_SLIDES * patients)]] = 2
    return SimulatedSlideCohort(
        share,
        rng.permutation(np.repeat(np.arange(centers), _sizes(patients, centers))),
        slides,
        np.ceil(np.minimum(survived, seen)).astype(np.int64).clip(1),
        survived <= seen,
    )


def _censoring_rate(rate: NDArray[np.float64]) -> float:
    """Of exponential censoring, such that the expected share of the censored is as wanted."""
    return float(
        np.exp(
            brentq(
                lambda log: float(np.mean(np.exp(log) / (np.exp(log) + rate))) - _CENSORED,
                np.log(rate.min()) - 5.0,
                np.log(rate.max()) + 5.0,
            )
        )
    )


def _sizes(patients: int, centers: int) -> NDArray[np.int64]:
    """Each center 0.6 of the one before, at least one patient, together all."""
    weight = _NEXT_CENTER ** np.arange(centers)
    wanted = (patients - centers) * weight / weight.sum()
    sizes: NDArray[np.int64] = np.floor(wanted).astype(np.int64) + 1
    sizes[np.argsort(sizes - 1 - wanted, kind="stable")[: patients - sizes.sum()]] += 1
    return sizes
