"""Where the tiles of a cohort's slides lie while a network trains on them.

On a processor slides stay as they are, in memory or in their files; on a GPU all of them are
packed into one tensor if they fit, and brought there a batch at a time if not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcox.survival.bags import SlideArray, SlideFeatures, TileFeatures
from fedcox.survival.cohort import IntArray

#: Slides up to so many bytes are read once and kept; more are read whenever they are needed.
_RESIDENT_BYTES = 4 * 2**30
_SHARE_OF_GPU = 0.8


@dataclass(frozen=True, eq=False)
class PackedTiles:
    """The tiles of several slides in one tensor on a GPU.

    Slide i has the rows `offsets`[i] to `offsets`[i + 1] of `features`, and their sum.
    """

    features: Tensor  # (tiles, features) float16, or float32 where any slide has it
    offsets: Tensor  # (slides + 1,) int64
    sums: Tensor  # (slides, features) float32

    @classmethod
    def of(
        cls, bags: Iterable[Tensor], tiles: Sequence[int], features: int, device: str
    ) -> PackedTiles:
        """From bags of so many `tiles` each, without a second copy of all of them."""
        ends = np.cumsum([0, *tiles])
        packed = torch.empty((int(ends[-1]), features), dtype=torch.float16, device=device)
        sums = torch.empty((len(tiles), features), dtype=torch.float32, device=device)
        for place, bag in enumerate(bags):
            if bag.dtype != packed.dtype:
                packed = packed.float()
            own = packed[ends[place] : ends[place + 1]].copy_(bag)
            sums[place] = own.sum(0, dtype=torch.float32)
        return cls(packed, torch.tensor(ends, device=device), sums)


class AbstractSlides(ABC):
    """Slides by their number."""

    device: str

    @abstractmethod
    def bag(self, slide: int) -> Tensor:
        """(tiles, features) as stored, on the device."""

    def packed(self, slides: IntArray) -> tuple[PackedTiles, Tensor]:
        """Packed tiles, and where in them these slides stand."""
        bags = [self.bag(slide) for slide in slides.tolist()]
        tiles, features = [bag.shape[0] for bag in bags], bags[0].shape[1]
        packed = PackedTiles.of(bags, tiles, features, self.device)
        return packed, torch.arange(len(bags), device=self.device)


@dataclass(frozen=True, eq=False)
class KeptSlides(AbstractSlides):
    """In memory, each as it was read."""

    bags: tuple[Tensor, ...]

    device = "cpu"

    def bag(self, slide: int) -> Tensor:
        return self.bags[slide]


@dataclass(frozen=True, eq=False)
class ReadSlides(AbstractSlides):
    """Read whenever they are looked at."""

    slides: tuple[SlideFeatures, ...]
    device: str

    def bag(self, slide: int) -> Tensor:
        return as_tensor(self.slides[slide].read()).to(self.device)


@dataclass(frozen=True, eq=False)
class PackedSlides(AbstractSlides):
    """All on a GPU."""

    tiles: PackedTiles
    first: IntArray  # (slides + 1,) the offsets on this side
    device: str

    def bag(self, slide: int) -> Tensor:
        return self.tiles.features[int(self.first[slide]) : int(self.first[slide + 1])]

    def packed(self, slides: IntArray) -> tuple[PackedTiles, Tensor]:
        return self.tiles, torch.from_numpy(slides).to(self.device)


def slide_tensors(slides: Sequence[SlideFeatures], device: str) -> AbstractSlides:
    """Keep as many slides as one should."""
    on_gpu = torch.device(device).type == "cuda"
    # What is in memory already costs nothing to keep there.
    wanted = sum(
        2 * slide.shape[0] * slide.shape[1]  # float16, as slides are stored
        for slide in slides
        if on_gpu or not isinstance(slide, SlideArray)
    )
    most = _RESIDENT_BYTES
    if on_gpu:
        most = int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])
    if wanted > most:
        return ReadSlides(tuple(slides), device)
    bags = (as_tensor(slide.read()) for slide in slides)
    if not on_gpu:
        return KeptSlides(tuple(bags))
    features = slides[0].shape[1] if slides else 0
    tiles = PackedTiles.of(bags, [slide.shape[0] for slide in slides], features, device)
    return PackedSlides(tiles, tiles.offsets.cpu().numpy(), device)


def as_tensor(array: TileFeatures) -> Tensor:
    """The same memory as a tensor, or a copy where it may not be written to."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
