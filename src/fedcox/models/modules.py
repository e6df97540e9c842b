"""A torch module as phi: what it must not do, and its weights as one vector θ.

It must not mix patients, draw at random, or lack a shape: a risk that depends on who else is in
the batch would differ from one split of the patients over centers to another, and would not be
one patient's own.

θ is what solvers move and centers are sent. It holds the module's parameters that need a
gradient, in the order of `named_parameters()`, as float64. The module's own copy may be
coarser.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from fedcox.errors import WeightsError
from fedcox.models.architecture import AbstractArchitecture
from fedcox.survival.cohort import FloatArray

#: Where no seed matters, since the weights are replaced.
_ANY_SEED = 0
#: Modules draw from torch's one generator, so two threads must not make them at once.
_DRAWING = Lock()


def check_module(name: str, module: object) -> None:
    """Refuse a module that breaks a rule, with every fault at once."""
    if not isinstance(module, nn.Module):
        raise WeightsError(f"The network {name!r} is no torch module.")
    faults = []
    for own_name, part in module.named_modules():
        fault = _fault(part)
        if fault:
            faults.append(f"{own_name or 'the module itself'} ({type(part).__name__}) {fault}")
    if any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters()):
        faults.append("A lazy layer has no shape yet; name its size.")
    elif not any(parameter.requires_grad for parameter in module.parameters()):
        faults.append("No parameter needs a gradient; there is nothing to train.")
    if faults:
        raise WeightsError(f"The network {name!r} cannot be used.", faults)


def _fault(part: nn.Module) -> str | None:
    if not part.training:
        return None
    if isinstance(part, _BatchNorm):
        return (
            "mixes the patients of a batch, so the result would depend on the split; "
            "use LayerNorm or GroupNorm, or call eval() to use the statistics it has."
        )
    # Recurrent and attention layers hold a rate under the same name.
    rate = part.p if isinstance(part, _DropoutNd) else getattr(part, "dropout", 0.0)
    if isinstance(rate, int | float) and rate > 0:
        return (
            "drops units at random, so the result would depend on the split; set its rate to 0 "
            "and use weight decay or early stopping."
        )
    if getattr(part, "track_running_stats", False):
        return "keeps statistics of earlier patients; set track_running_stats to False."
    return None


def build(architecture: AbstractArchitecture, seed: int = _ANY_SEED) -> nn.Module:
    """A module that obeys the rules; torch's global generator stays as it was."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = architecture.build()
    check_module(architecture.name, module)
    return module


def start(architecture: AbstractArchitecture, seed: int) -> FloatArray:
    """Fresh weights: the same seed gives the same bits."""
    return flatten(parameter for _, parameter in trainable(build(architecture, seed)))


def trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Those parameters that θ holds, with their names."""
    return [pair for pair in module.named_parameters() if pair[1].requires_grad]


@lru_cache(maxsize=64)
def pieces(architecture: AbstractArchitecture) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Name and shape of each piece of θ, in its order."""
    module = build(architecture)
    return tuple((name, tuple(piece.shape)) for name, piece in trainable(module))


def size(architecture: AbstractArchitecture) -> int:
    """How many numbers θ has."""
    return sum(prod(shape) for _, shape in pieces(architecture))


def flatten(tensors: Iterable[Tensor]) -> FloatArray:
    """Tensors as one float64 vector."""
    parts = [tensor.detach().to("cpu", torch.float64).reshape(-1) for tensor in tensors]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64) if parts else np.empty(0)


def split(
    architecture: AbstractArchitecture, theta: FloatArray
) -> tuple[tuple[str, FloatArray], ...]:
    """θ cut into its named pieces."""
    check_theta(architecture, theta)
    ends = np.cumsum([prod(shape) for _, shape in pieces(architecture)])
    cuts = np.split(theta, ends[:-1]) if ends.size else []
    return tuple(
        (name, piece.reshape(shape))
        for (name, shape), piece in zip(pieces(architecture), cuts, strict=True)
    )


def assign(module: nn.Module, theta: FloatArray) -> None:
    """Put θ into a module, in the module's own precision and on its device."""
    parameters = [parameter for _, parameter in trainable(module)]
    _check_size(theta, sum(parameter.numel() for parameter in parameters))
    whole = torch.tensor(theta, dtype=torch.float64)
    first = 0
    with torch.no_grad():
        for parameter in parameters:
            end = first + parameter.numel()
            parameter.copy_(whole[first:end].reshape(parameter.shape))
            first = end


def check_theta(architecture: AbstractArchitecture, theta: FloatArray) -> None:
    """Refuse a θ that is not one of this architecture's."""
    _check_size(theta, size(architecture))


def _check_size(theta: FloatArray, wanted: int) -> None:
    if theta.ndim != 1 or theta.size != wanted:
        raise WeightsError(
            f"These weights have the shape {theta.shape}; the network has {wanted} weights.",
            ["Use weights that were trained with the same architecture."],
        )
