"""What a module must not do to be phi: mix patients, draw at random, or lack a shape.

A risk that depends on who else is in the batch would differ from one split of the patients over
centers to another, and would not be one patient's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from fedcox.errors import InputError, WeightsError
from fedcox.survival.cohort import IntArray

_ROUNDING = 1e-3  # far above that of any precision here


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


class Scores(Protocol):
    """What computes the scores of samples, given by their numbers."""

    def scores(self, samples: IntArray) -> Tensor: ...

    def blocks(self, samples: IntArray) -> Iterator[tuple[slice, Pulling]]: ...


class Pulling(Protocol):
    """Some scores whose slopes in the weights can be asked for."""

    def pull(self, slopes: Tensor) -> Tensor: ...


def check_scores(name: str, phi: Scores, samples: int) -> None:
    """Refuse a module that does not run, or that mixes or draws in its own code.

    Samples must score as when they are alone.
    """
    try:
        alone, again = phi.scores(np.array([0])), phi.scores(np.array([0]))
        beside = phi.scores(np.array([0, min(1, samples - 1)]))[:1]
        with torch.enable_grad():
            for _, block in phi.blocks(np.array([0])):
                block.pull(torch.ones_like(alone))
    except InputError:
        raise
    except Exception as error:  # whatever a researcher's own code may raise
        raise WeightsError(
            f"The network {name!r} does not run on these patients, or cannot be trained.",
            [
                f"{type(error).__name__}: {error}",
                "It must take what these patients have, and give a tensor that its weights "
                "lead to, not detached from them.",
            ],
        ) from error
    if _differ(alone, again):
        raise WeightsError(
            f"The network {name!r} gives the same patient another score each time.",
            ["It must not draw at random; start weights are drawn when it is made."],
        )
    if _differ(alone, beside):
        raise WeightsError(
            f"The network {name!r} gives a patient another score when others are there.",
            ["It must treat each row by itself: no statistics over the batch."],
        )


def _differ(left: Tensor, right: Tensor) -> bool:
    return bool(((left - right).abs() > _ROUNDING * (1 + left.abs())).any())
