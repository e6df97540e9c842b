"""Whether the weights in a file fit ResNet-50, and which they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedcox.errors import WeightsError
from fedcox.slides.resnet import layout

_NEEDED = (
    "Needed are the tensors of torchvision's resnet50 (conv1.weight, bn1.weight, "
    "layer1.0.conv1.weight, …), in a .pth or .safetensors file."
)
_NAMED = 3
#: Under these a training's checkpoint keeps the network's tensors.
_CHECKPOINT_KEYS = ("state_dict", "model", "teacher", "student")


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
    found = _from_safetensors(path) if path.suffix == ".safetensors" else _from_torch(path)
    for key in _CHECKPOINT_KEYS:
        inner = found.get(key)
        if isinstance(inner, Mapping):
            found = inner
            break
    return {str(name): value for name, value in found.items() if isinstance(value, Tensor)}


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
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that is something else ends in any of them
        faults = [
            "Only plain tensors are read from it, since anything else in such a file could "
            "run as a program: store the network's state_dict() alone.",
            _NEEDED,
        ]
        raise WeightsError(f"{path} is no file of weights that can be read.", faults) from error
    if not isinstance(found, Mapping):
        raise WeightsError(f"{path} holds no named tensors.", [_NEEDED])
    return found


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
    found = {
        "missing": [name for name in wanted if name not in tensors],
        "of another shape": sorted(shaped),
        "not of this network": [name for name in tensors if name not in wanted],
    }
    return [_some(what, names) for what, names in found.items() if names]


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
