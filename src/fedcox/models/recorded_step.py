"""A step of the slide model on a GPU: recorded once, then played back.

A step is some small operations beside the reading of the slides, and asking a GPU for each
takes longer than doing them all. CUDA can record them and do them at one call. Recordings
are for a number of slides; fewer are filled up with slides of weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcox.models.architecture import AbstractArchitecture, TileScorer
from fedcox.models.losses import weighed_cells
from fedcox.models.network_patients import (
    NetworkPatients,
    PackedSlides,
    PackedTiles,
    PlacedSamples,
)
from fedcox.models.predictors.network import NetworkLink
from fedcox.models.tile_scorer import TileScorerWeights
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives

_MOST_SLIDES = 512  # of one recording: their means are held together


@dataclass(frozen=True, eq=False)
class _Recording:
    """What is played back: numbers go in at one place and come out at another."""

    graph: torch.cuda.CUDAGraph
    given: Tensor  # θ, α, places of the slides, their weights; float64, on the GPU
    found: Tensor  # slopes in θ, the loss, slopes in α; float64, on the GPU
    sent: Tensor  # the same as `given`, where the GPU can fetch it by itself
    received: Tensor


class RecordedSteps:
    """Loss and gradient over some of a cohort's slides, which are all on the GPU.

    Products over tiles are in half precision, sums over slides in float32, the loss in float64.
    """

    def __init__(
        self,
        architecture: TileScorer,
        tiles: PackedTiles,
        placed: PlacedSamples,
        *,
        intervals: int,
        link: NetworkLink,
        event_weight: float,
    ) -> None:
        self._architecture, self._tiles = architecture, tiles
        baseline = placed.weight.new_zeros(intervals)
        self._cells = weighed_cells(placed, baseline, event_weight)
        self._intervals = intervals
        self._link: NetworkLink = link
        self._weights = architecture.hidden * (architecture.features + 2)
        self._recordings: dict[int, _Recording] = {}

    def summed(
        self, theta: FloatArray, alpha: FloatArray, samples: IntArray, weight: FloatArray
    ) -> Derivatives:
        """Over these slides, each as often as its weight says."""
        total = self._played(theta, alpha, samples[:_MOST_SLIDES], weight[:_MOST_SLIDES])
        for first in range(_MOST_SLIDES, samples.size, _MOST_SLIDES):
            here = slice(first, first + _MOST_SLIDES)
            total += self._played(theta, alpha, samples[here], weight[here])
        ends = theta.size
        return Derivatives(float(total[ends]), total[ends + 1 :], total[:ends], None)

    def _played(
        self, theta: FloatArray, alpha: FloatArray, samples: IntArray, weight: FloatArray
    ) -> FloatArray:
        if not samples.size:
            return np.zeros(1 + theta.size + alpha.size)
        slides = _filled(samples.size)
        recording = self._recordings.get(slides)
        if recording is None:
            recording = self._recordings[slides] = self._recorded(slides)
        rest = np.zeros(slides - samples.size)  # the first slide, weighing nothing
        np.concatenate([theta, alpha, samples, rest, weight, rest], out=recording.sent.numpy())
        recording.given.copy_(recording.sent, non_blocking=True)
        recording.graph.replay()
        recording.received.copy_(recording.found, non_blocking=True)
        torch.cuda.current_stream(recording.found.device).synchronize()
        return np.array(
            recording.received.numpy(), dtype=np.float64
        )  # the next step overwrites it

    def _recorded(self, slides: int) -> _Recording:
        device = self._tiles.features.device
        size = self._weights + self._intervals + 2 * slides
        given = torch.zeros(size, dtype=torch.float64, device=device)
        apart = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        apart.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(apart):  # what is made at first use must not be recorded
            for _ in range(2):
                found = self._summed(given, slides)
        torch.cuda.current_stream(device).wait_stream(apart)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = self._summed(given, slides)
        return _Recording(
            graph,
            given,
            found,
            torch.empty(size, dtype=torch.float64, pin_memory=True),
            torch.empty(found.numel(), dtype=torch.float64, pin_memory=True),
        )

    def _summed(self, given: Tensor, slides: int) -> Tensor:
        from fedcox.models.gpu_kernels import loss_and_gradient, slope_sums

        theta, alpha, places, times = torch.split(
            given, [self._weights, self._intervals, slides, slides]
        )
        chosen = places.long()
        own = TileScorerWeights.of(self._architecture, theta.float())
        tiles = self._tiles
        means = slope_sums(
            tiles.features, tiles.offsets, tiles.sums, chosen, own.weight, own.bias, own.slope
        )
        return loss_and_gradient(own, alpha, means, self._cells, chosen, times, link=self._link)


def recorded_steps(
    architecture: AbstractArchitecture,
    patients: NetworkPatients,
    *,
    intervals: int,
    link: NetworkLink,
    event_weight: float,
) -> RecordedSteps | None:
    """Steps to be played back; None where the network or its slides are not made for it."""
    slides = patients.slides
    if not isinstance(slides, PackedSlides) or not isinstance(architecture, TileScorer):
        return None
    from fedcox.models.gpu_kernels import fits

    tiles = slides.tiles
    if tiles.features.dtype != torch.float16 or not fits(
        architecture.hidden, architecture.features
    ):
        return None
    return RecordedSteps(
        architecture,
        tiles,
        patients.placed,
        intervals=intervals,
        link=link,
        event_weight=event_weight,
    )


def _filled(slides: int) -> int:
    """So many or a few more, so that not every number needs a recording of its own."""
    unit = 1 << max(0, slides.bit_length() - 5)
    return -(-slides // unit) * unit
