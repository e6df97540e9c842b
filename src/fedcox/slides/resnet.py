"""ResNet-50 under the names that published weights use.

Names, shapes and numbers are torchvision's, so that any `resnet50-*.pth` fits: bottlenecks
that halve the image in their 3×3 convolution, three colours normalised by ImageNet's mean and
spread, 2048 features from the mean over the last map. The classifier `fc` is left out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedcox.errors import WeightsError

FEATURES = 2048
PARAMETERS = 23_508_032
EPSILON = 1e-5
"""Added to the variance in every batch norm."""

#: Width and number of the bottlenecks of each stage.
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
_WIDER = 4
#: What a block adds to what passes it by, without training: features stay near 1.
_UNTRAINED_SHARE = 0.5
_NEEDED = (
    "Needed are the tensors of torchvision's resnet50 (conv1.weight, bn1.weight, "
    "layer1.0.conv1.weight, …), in a .pth or .safetensors file."
)
_NAMED = 3
#: Under these a training's checkpoint keeps the network's tensors.
_CHECKPOINT_KEYS = ("state_dict", "model", "teacher", "student")


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
    for stage, (width, blocks) in enumerate(STAGES, start=1):
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


@dataclass(frozen=True)
class ResNetWeights:
    """Tensors that fit, their SHA-256, and what was passed over to get at them.

    The digest is over names, shapes and float32 values, so that a .pth and a .safetensors file
    of the same network have the same one.
    """

    tensors: Mapping[str, Tensor]
    sha256: str
    notes: tuple[str, ...] = ()


def read_weights(path: str | Path) -> ResNetWeights:
    """The network's tensors from a file; WeightsError says what does not fit."""
    path = Path(path)
    tensors, notes = _under_one_prefix(_tensors(path), path)
    return _checked(tensors, notes, f"{path} does not fit ResNet-50.")


def fitting_weights(tensors: Mapping[str, Tensor]) -> ResNetWeights:
    """Tensors at hand, checked as those of a file are."""
    return _checked(dict(tensors), [], "These weights do not fit ResNet-50.")


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise WeightsError(f"There is no file {path}.", ["Give a .pth or .safetensors file."])
    tensors = _from_safetensors(path) if path.suffix == ".safetensors" else _from_torch(path)
    for key in _CHECKPOINT_KEYS:
        inner = tensors.get(key)
        if isinstance(inner, Mapping):
            tensors = inner
            break
    return {str(name): value for name, value in tensors.items() if isinstance(value, Tensor)}


def _from_safetensors(path: Path) -> Mapping[str, object]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(
            f"{path} is no safetensors file that can be read.", [_NEEDED]
        ) from error


def _from_torch(path: Path) -> Mapping[str, object]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that is something else ends in any of them
        faults = [
            "Only plain tensors are read from it, since anything else in such a file could "
            "run as a program: store the network's state_dict() alone.",
            _NEEDED,
        ]
        raise WeightsError(f"{path} is no file of weights that can be read.", faults) from error
    if not isinstance(tensors, Mapping):
        raise WeightsError(f"{path} holds no named tensors.", [_NEEDED])
    return tensors


def _under_one_prefix(
    tensors: dict[str, Tensor], path: Path
) -> tuple[dict[str, Tensor], list[str]]:
    """The network inside, whose names may begin with `module.`, `backbone.` or the like."""
    end = "conv1.weight"
    prefixes = sorted(
        name.removesuffix(end)
        for name in tensors
        if name.endswith(end) and f"{name.removesuffix(end)}layer1.0.conv1.weight" in tensors
    )
    if len(prefixes) > 1:
        within = ", ".join(f"{prefix}*" for prefix in prefixes)
        raise WeightsError(
            f"{path} holds {len(prefixes)} networks: {within}.",
            ["Store the tensors of the one that you mean in a file of their own."],
        )
    if not prefixes or not prefixes[0]:
        return tensors, []
    prefix = prefixes[0]
    inside = {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    notes = [f"Names begin with {prefix}; it was left out."]
    outside = len(tensors) - len(inside)
    if outside:
        notes.append(f"{outside} tensors outside {prefix}* were not used.")
    return inside, notes


def _checked(tensors: dict[str, Tensor], notes: list[str], subject: str) -> ResNetWeights:
    wanted = layout()
    for name in wanted:
        if name.endswith("num_batches_tracked"):
            # A count of training's, of no use here, and absent from files of before 2018.
            tensors[name] = torch.zeros((), dtype=torch.int64)
    tensors = {name: one for name, one in tensors.items() if not name.startswith("fc.")}
    faults = _faults(tensors, wanted)
    if faults:
        raise WeightsError(subject, [*faults, _NEEDED])
    fitting = {
        name: tensors[name].to(torch.float32 if shape else torch.int64).contiguous()
        for name, shape in wanted.items()
    }
    broken = [name for name, one in fitting.items() if not torch.isfinite(one).all()]
    if broken:
        raise WeightsError(subject, [_some("not finite", broken), "Fetch the file again."])
    return ResNetWeights(fitting, _digest(fitting), tuple(notes))


def _faults(tensors: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]]) -> list[str]:
    shaped = {
        f"{name} {tuple(tensors[name].shape)} instead of {shape}"
        for name, shape in wanted.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    }
    kinds = {
        "missing": [name for name in wanted if name not in tensors],
        "of another shape": sorted(shaped),
        "not of this network": [name for name in tensors if name not in wanted],
    }
    return [_some(what, names) for what, names in kinds.items() if names]


def _some(what: str, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} {what}: {', '.join(names[:_NAMED])}{more}."


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(b"resnet50")
    for name in sorted(tensors):
        if not name.endswith("num_batches_tracked"):
            values = tensors[name].to(torch.float32)
            digest.update(f"{name} {tuple(values.shape)}\n".encode())
            digest.update(values.numpy().astype("<f4", copy=False).tobytes())
    return digest.hexdigest()
