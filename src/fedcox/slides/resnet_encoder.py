"""ResNet-50 over tiles, on the processor or on a CUDA device that is never to wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from fedcox.errors import InputError
from fedcox.slides.encoder import (
    MEAN,
    SPREAD,
    AbstractEncoder,
    AbstractPending,
    Device,
    Features,
    Precision,
    Ready,
    Tiles,
)
from fedcox.slides.resnet import EPSILON, BottleneckPlan, ResNetWeights, bottlenecks

#: Subtracted from the 8-bit colours; a float of 16 bits holds the differences exactly.
_NEAR_MEAN = tuple(round(255 * mean) for mean in MEAN)
_LANES = 2
_WARM_UPS = 3


@dataclass(frozen=True)
class FoldedConvolution:
    """A convolution with a bias, if any: weight (out, in, k, k), bias (out,)."""

    weight: Tensor
    bias: Tensor | None
    stride: int

    @property
    def padding(self) -> int:
        """Half the filter: the image keeps its size, but for the stride."""
        return self.weight.shape[-1] // 2


@dataclass(frozen=True)
class FoldedBottleneck:
    """The three convolutions of a block, and the one beside them where sizes change."""

    narrow: FoldedConvolution
    look: FoldedConvolution
    widen: FoldedConvolution
    beside: FoldedConvolution | None


class FoldedResNet50:
    """The network for inference on one device, in bfloat16 or float32.

    Call it with tiles (n, height, width, 3) of 8-bit colours on the device; the features are
    (n, 2048) float32. A tile's features do not depend on the tiles beside it, as far as the
    device's convolutions for that batch size keep rows apart.

    It has the form that runs fastest where nothing is trained any more. Batch norms are folded
    into the convolutions before them (in float64), every convolution ends with its bias and its
    ReLU, and what passes a block by is added inside the block's last convolution. On CUDA each
    of these is one call of cuDNN; elsewhere they are plain operations.

    The colours' normalisation is folded too. Padding comes after it, so that a padded pixel is
    0 *there*; hence whole numbers near the mean are subtracted first, which 16 bits hold
    exactly, and a fourth channel of ones, 0 in the padding, carries what is left of the mean.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype
    ) -> None:
        self.device, self.dtype = device, dtype
        self._first = self._placed(_taking_bytes(_fold(weights, "conv1", "bn1", 2)))
        self._blocks = [self._block(weights, plan) for plan in bottlenecks()]
        near = torch.tensor(_NEAR_MEAN, dtype=dtype, device=device)
        self._near_mean = near.view(1, 3, 1, 1)

    @torch.inference_mode()
    def __call__(self, tiles: Tensor) -> Tensor:
        """(n, height, width, 3) uint8 to (n, 2048) float32."""
        x = _conv_relu(self._colours(tiles), self._first)
        x = functional.max_pool2d(x, 3, 2, padding=1)
        for block in self._blocks:
            passed = x if block.beside is None else _conv(x, block.beside)
            x = _conv_relu(_conv_relu(x, block.narrow), block.look)
            x = _conv_add_relu(x, block.widen, passed)
        return x.mean(dim=(2, 3), dtype=torch.float32)

    def _colours(self, tiles: Tensor) -> Tensor:
        """Colours less whole numbers, and a channel of ones: (n, 4, height, width)."""
        n, height, width, _ = tiles.shape
        x = torch.empty(
            (n, 4, height, width),
            dtype=self.dtype,
            device=self.device,
            memory_format=torch.channels_last,
        )
        torch.sub(tiles.permute(0, 3, 1, 2), self._near_mean, out=x[:, :3])
        x[:, 3] = 1
        return x

    def _placed(self, folded: FoldedConvolution) -> FoldedConvolution:
        bias = folded.bias
        return FoldedConvolution(
            folded.weight.to(self.device, self.dtype, memory_format=torch.channels_last),
            None if bias is None else bias.to(self.device, self.dtype),
            folded.stride,
        )

    def _block(self, weights: Mapping[str, Tensor], plan: BottleneckPlan) -> FoldedBottleneck:
        name, stride = plan.name, plan.stride
        widen, beside = _fold(weights, f"{name}.conv3", f"{name}.bn3", 1), None
        if plan.has_beside:
            folded = _fold(weights, f"{name}.downsample.0", f"{name}.downsample.1", stride)
            # Both are added up, so one bias does for the two.
            widen = replace(widen, bias=_sum(widen.bias, folded.bias))
            beside = self._placed(replace(folded, bias=None))
        return FoldedBottleneck(
            self._placed(_fold(weights, f"{name}.conv1", f"{name}.bn1", 1)),
            self._placed(_fold(weights, f"{name}.conv2", f"{name}.bn2", stride)),
            self._placed(widen),
            beside,
        )


def _fold(
    weights: Mapping[str, Tensor], conv: str, norm: str, stride: int
) -> FoldedConvolution:
    """γ(conv(x) − μ)/√(σ² + ε) + β as one convolution, in float64."""
    gamma, beta, mean, variance = (
        weights[f"{norm}.{part}"].double()
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gamma / torch.sqrt(variance + EPSILON)
    weight = weights[f"{conv}.weight"].double() * scale.view(-1, 1, 1, 1)
    return FoldedConvolution(weight, beta - mean * scale, stride)


def _taking_bytes(first: FoldedConvolution) -> FoldedConvolution:
    """The first convolution over 8-bit colours less whole numbers, and a channel of ones."""
    mean = 255 * torch.tensor(MEAN, dtype=torch.float64).view(1, 3, 1, 1)
    spread = 255 * torch.tensor(SPREAD, dtype=torch.float64).view(1, 3, 1, 1)
    near = torch.tensor(_NEAR_MEAN, dtype=torch.float64).view(1, 3, 1, 1)
    weight = first.weight / spread
    ones = (weight * (near - mean)).sum(dim=1, keepdim=True)
    return FoldedConvolution(torch.cat([weight, ones], dim=1), first.bias, first.stride)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _conv(x: Tensor, layer: FoldedConvolution) -> Tensor:
    return functional.conv2d(x, layer.weight, layer.bias, layer.stride, layer.padding)


def _conv_relu(x: Tensor, layer: FoldedConvolution) -> Tensor:
    if x.is_cuda:
        return torch.cudnn_convolution_relu(
            x,
            layer.weight,
            layer.bias,
            stride=(layer.stride, layer.stride),
            padding=(layer.padding, layer.padding),
            dilation=(1, 1),
            groups=1,
        )
    return _conv(x, layer).relu_()


def _conv_add_relu(x: Tensor, layer: FoldedConvolution, added: Tensor) -> Tensor:
    if x.is_cuda:
        return torch.cudnn_convolution_add_relu(
            x,
            layer.weight,
            added,
            1.0,
            layer.bias,
            stride=(layer.stride, layer.stride),
            padding=(layer.padding, layer.padding),
            dilation=(1, 1),
            groups=1,
        )
    return _conv(x, layer).add_(added).relu_()


class AbstractResNetEncoder(AbstractEncoder):
    """ResNet-50 on a device; how batches get there is each device's own matter."""

    def __init__(
        self, weights: ResNetWeights, name: str, precision: Precision, device: Device
    ) -> None:
        self.name, self.sha256, self.precision = name, weights.sha256, precision
        self.notes = weights.notes
        self._network = FoldedResNet50(
            weights.tensors, torch.device(device), getattr(torch, precision)
        )


class CpuResNetEncoder(AbstractResNetEncoder):
    """One batch at a time, over torch's threads."""

    def __init__(self, weights: ResNetWeights, name: str, precision: Precision) -> None:
        super().__init__(weights, name, precision, "cpu")

    def submit(self, tiles: Tiles) -> AbstractPending:
        return Ready(self._network(torch.from_numpy(tiles)).numpy())


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
    """Two batches under way: one is copied while the other is computed.

    The network runs as one CUDA graph for a fixed batch. While it works on a batch, the next
    one is copied on a stream of its own, from page-locked memory.
    """

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
