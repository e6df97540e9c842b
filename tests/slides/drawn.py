"""Simulated slides that tests write to the disk, and cut off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcox.slides.simulated_slides import write_pyramid
from fedcox.slides.simulated_tissue import DrawnSlide, draw_slide


@dataclass(frozen=True)
class Row:
    """A slide as a manifest names it."""

    slide_id: str
    path: Path | None


def drawn_slide(
    path: Path, *, seed: int = 0, size_px: int = 1024, mpp: float = 1.0, told: bool = True
) -> DrawnSlide:
    """Write a simulated slide; without `told` its file has no resolution."""
    drawn = draw_slide(size_px, mpp, 0.3, rng=np.random.default_rng(seed))
    write_pyramid(path, drawn.pixels, mpp if told else float("nan"))
    return drawn


def glass(path: Path, size_px: int = 512) -> None:
    """A slide with nothing on it but noise."""
    grain = np.random.default_rng(0).integers(-3, 4, (size_px, size_px, 3))
    write_pyramid(path, (243 + grain).astype(np.uint8), 1.0)


def cut_in_half(path: Path) -> None:
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def intersection_over_union(found: np.ndarray, truth: np.ndarray) -> float:
    return float((found & truth).sum() / (found | truth).sum())
