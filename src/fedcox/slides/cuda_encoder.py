"""ResNet-50 over tiles on a CUDA device that is never to wait.

The network runs as one CUDA graph for a fixed batch. While it works on a batch, the next one
is copied on a stream of its own, from page-locked memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import cast

import torch
from torch import Tensor

from fedcox.errors import InputError
from fedcox.slides.encoder import AbstractPending, Features, Precision, Tiles
from fedcox.slides.folded_resnet import FoldedResNet50
from fedcox.slides.resnet_encoder import AbstractResNetEncoder
from fedcox.slides.resnet_weights import ResNetWeights

_LANES = 2
_WARM_UPS = 3


@dataclass(frozen=True)
class _Lane:
    """Where one batch is while the other is computed."""

    tiles: Tensor
    host_features: Tensor
    copied: torch.cuda.Event
    taken: torch.cuda.Event
    finished: torch.cuda.Event


class _Pending(AbstractPending):
    def __init__(self, lane: _Lane) -> None:
        self._lane = lane

    def features(self) -> Features:
        self._lane.finished.synchronize()
        return cast(Features, self._lane.host_features.numpy().copy())


class GraphedNetwork:
    """The network over batches of one shape, as a CUDA graph.

    `run` reads `tiles` and leaves the result in `features`, both on the device.
    """

    def __init__(self, network: FoldedResNet50, shape: tuple[int, ...]) -> None:
        self.tiles = torch.zeros(shape, dtype=torch.uint8, device=network.device)
        side = _stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                network(self.tiles)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.features = network(self.tiles)

    def run(self) -> None:
        """Compute on the current stream, once what is before it there has ended."""
        self._graph.replay()


class CudaResNetEncoder(AbstractResNetEncoder):
    """Two batches under way: one is copied while the other is computed."""

    in_flight = _LANES

    def __init__(self, weights: ResNetWeights, name: str, precision: Precision) -> None:
        # A choice of algorithms by stop watch could differ between two runs, and so the bits.
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        super().__init__(weights, name, precision, "cuda")
        self._copying = _stream()
        self._graphed: GraphedNetwork | None = None
        self._lanes: Iterator[_Lane] = iter(())

    def submit(self, tiles: Tiles) -> AbstractPending:
        graphed = self._prepared(tiles.shape)
        lane = next(self._lanes)
        computing = torch.cuda.current_stream()
        self._copying.wait_event(lane.taken)
        with torch.cuda.stream(self._copying), torch.inference_mode():
            lane.tiles.copy_(torch.from_numpy(tiles), non_blocking=True)
            lane.copied.record(self._copying)
        computing.wait_event(lane.copied)
        with torch.inference_mode():
            graphed.tiles.copy_(lane.tiles)
            lane.taken.record(computing)
            graphed.run()
            lane.host_features.copy_(graphed.features, non_blocking=True)
        lane.finished.record(computing)
        return _Pending(lane)

    @contextmanager
    def reads_from(self, memory: Tiles) -> Iterator[None]:
        """Lock the pages, so that the device copies from them by itself."""
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        torch.cuda.check_error(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0))
        try:
            yield
        finally:
            torch.cuda.synchronize()
            torch.cuda.check_error(runtime.cudaHostUnregister(memory.ctypes.data))

    def _prepared(self, shape: tuple[int, ...]) -> GraphedNetwork:
        """The graph for this shape; slides of one step have the same."""
        if self._graphed is None or tuple(self._graphed.tiles.shape) != shape:
            torch.cuda.synchronize()
            try:
                self._graphed = GraphedNetwork(self._network, shape)
            except torch.cuda.OutOfMemoryError as error:
                raise InputError(
                    f"The device has too little memory for batches of {shape[0]} tiles.",
                    ["Say a smaller --batch."],
                ) from error
            self._lanes = cycle([_lane(self._graphed) for _ in range(_LANES)])
        return self._graphed


def _lane(graphed: GraphedNetwork) -> _Lane:
    return _Lane(
        torch.empty_like(graphed.tiles),
        torch.empty(graphed.features.shape, dtype=torch.float32, pin_memory=True),
        _event(),
        _event(),
        _event(),
    )


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
