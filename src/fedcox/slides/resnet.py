"""ResNet-50 under the names that published weights use.

Names, shapes and numbers are torchvision's, so that any `resnet50-*.pth` fits: bottlenecks
that halve the image in their 3×3 convolution, three colours normalised by ImageNet's mean and
spread, 2048 features from the mean over the last map. The classifier `fc` is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

FEATURES = 2048
PARAMETERS = 23_508_032
EPSILON = 1e-5
"""Added to the variance in every batch norm."""

#: Width and number of the bottlenecks of each stage.
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
_WIDER = 4
#: What a block adds to what passes it by, without training: features stay near 1.
_UNTRAINED_SHARE = 0.5


@dataclass(frozen=True)
class BottleneckPlan:
    """One block: its name and channels; `stride` 2 halves the image."""

    name: str
    inputs: int
    width: int
    stride: int

    @property
    def outputs(self) -> int:
        return _WIDER * self.width

    @property
    def has_beside(self) -> bool:
        """Whether what passes by needs a convolution to fit."""
        return self.stride != 1 or self.inputs != self.outputs


def bottlenecks() -> Iterator[BottleneckPlan]:
    """The sixteen blocks in order."""
    inputs = 64
    for stage, (width, blocks) in enumerate(_STAGES, start=1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            yield BottleneckPlan(f"layer{stage}.{block}", inputs, width, stride)
            inputs = _WIDER * width


def layout() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the 318 tensors, in order."""
    shapes = _convolution("conv1", "bn1", (64, 3, 7, 7))
    for block in bottlenecks():
        name, width = block.name, block.width
        shapes |= _convolution(f"{name}.conv1", f"{name}.bn1", (width, block.inputs, 1, 1))
        shapes |= _convolution(f"{name}.conv2", f"{name}.bn2", (width, width, 3, 3))
        shapes |= _convolution(f"{name}.conv3", f"{name}.bn3", (block.outputs, width, 1, 1))
        if block.has_beside:
            beside = f"{name}.downsample"
            shape = (block.outputs, block.inputs, 1, 1)
            shapes |= _convolution(f"{beside}.0", f"{beside}.1", shape)
    return shapes


def _convolution(
    name: str, norm: str, shape: tuple[int, int, int, int]
) -> dict[str, tuple[int, ...]]:
    """A convolution and the batch norm after it."""
    parts = ("weight", "bias", "running_mean", "running_var")
    return {
        f"{name}.weight": shape,
        **{f"{norm}.{part}": (shape[0],) for part in parts},
        f"{norm}.num_batches_tracked": (),
    }


class Bottleneck(nn.Module):
    """Narrow, look around, widen, and add to what passes by."""

    def __init__(self, plan: BottleneckPlan) -> None:
        super().__init__()
        inputs, width, outputs, stride = plan.inputs, plan.width, plan.outputs, plan.stride
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if plan.has_beside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, height, width) to (n, 4·width, height/stride, width/stride)."""
        passed = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return cast(Tensor, self.relu(self.bn3(self.conv3(x)) + passed))


class ResNet50(nn.Module):
    """The network without its classifier; its state dict has torchvision's 318 names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = len(_STAGES)
        for stage in range(1, self.stages + 1):
            own = [plan for plan in bottlenecks() if plan.name.startswith(f"layer{stage}.")]
            self.add_module(f"layer{stage}", nn.Sequential(*map(Bottleneck, own)))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, height, width), normalised, to (n, 2048)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(1, self.stages + 1):
            x = self.get_submodule(f"layer{stage}")(x)
        return x.mean(dim=(2, 3))


def untrained_weights(seed: int) -> dict[str, Tensor]:
    """Random weights for simulated slides: the same numbers for a seed on every machine.

    Normal with He's spread, each filter without its mean: what a filter answers to is contrast
    and colour, not brightness, and features are near 1. They are drawn by numpy, since torch's
    normal numbers depend on the processor.
    """
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in layout().items():
        kind = torch.float32 if shape else torch.int64
        drawn = torch.zeros(shape, dtype=kind)
        if len(shape) == 4:
            drawn = _he_normal(shape, random)
        elif name.endswith("running_var"):
            drawn += 1
        elif name.endswith("weight"):
            drawn += _UNTRAINED_SHARE if name.endswith("bn3.weight") else 1
        weights[name] = drawn
    return weights


def _he_normal(shape: tuple[int, ...], random: np.random.Generator) -> Tensor:
    drawn = random.standard_normal(shape, dtype=np.float32)
    drawn -= drawn.mean(axis=(1, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)
    drawn *= np.float32(math.sqrt(2 / math.prod(shape[1:])))
    return torch.from_numpy(drawn)
