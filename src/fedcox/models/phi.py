"""phi of some samples and its derivatives in θ, for any network.

Samples are looked at in blocks. What a block adds to a gradient is known as soon as its own
scores are: the loss's slope in phi_i depends on no other sample. Slides go one by one, so that
each adds the same whoever else is there, and sums over slides are in float64.

A tile scorer has a form that reads its tiles once; any other network is run as its module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedcox.errors import InputError, WeightsError
from fedcox.models.architecture import AbstractArchitecture, TileScorer, TileScorerWithTable
from fedcox.models.modules import assign, build, check_theta, trainable
from fedcox.models.network_patients import NetworkPatients
from fedcox.models.predictors.network import Precision
from fedcox.models.tile_scorer import (
    HiddenLayer,
    ScoredMeans,
    SlideMeans,
    TileScorerWeights,
    slide_means,
)
from fedcox.survival.cohort import FloatArray, IntArray

_SLIDES = 64  # whose means are held together
_SLIDES_ON_GPU = 512
_ROWS = 2**16  # of a table that go through a network together
_ROUNDING = 1e-3  # far above that of any precision here


@dataclass(frozen=True, eq=False)
class LoadedModule:
    """A module that holds θ, with those of its parameters that θ is made of."""

    module: nn.Module
    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]

    @classmethod
    def of(cls, module: nn.Module) -> LoadedModule:
        pairs = trainable(module)
        return cls(module, tuple(name for name, _ in pairs), tuple(own for _, own in pairs))


class ScoredBlock(Protocol):
    """Some samples with their scores."""

    @property
    def phi(self) -> Tensor:
        """(samples,) float64, without a graph."""
        ...

    def pull(self, slopes: Tensor) -> Tensor:
        """Σ_i slopes_i · ∂phi_i/∂θ: (weights,) float64."""
        ...

    def jacobian(self) -> Tensor:
        """∂phi_i/∂θ: (samples, weights) float64."""
        ...


class AbstractPhi(ABC):
    """phi at one θ over the samples of laid-out patients."""

    @abstractmethod
    def blocks(self, samples: IntArray) -> Iterator[tuple[slice, ScoredBlock]]:
        """The samples in blocks, in order, each with its place among them."""

    @abstractmethod
    def scores(self, samples: IntArray) -> Tensor:
        """The scores alone: (samples,) float64."""


@dataclass(frozen=True, eq=False)
class TilePhi(AbstractPhi):
    """The tile scorer, in its one-pass form; `dtype` is that of its matrix products."""

    weights: TileScorerWeights  # float64
    patients: NetworkPatients
    dtype: torch.dtype

    def blocks(self, samples: IntArray) -> Iterator[tuple[slice, ScoredBlock]]:
        step = _SLIDES_ON_GPU if self.weights.weight.is_cuda else _SLIDES
        for first in range(0, samples.size, step):
            chosen = samples[first : first + step]
            means = self._means_by_kernel(chosen)
            block = ScoredMeans(self.weights, means or self._means(chosen), self._rows(chosen))
            yield slice(first, first + chosen.size), block

    def scores(self, samples: IntArray) -> Tensor:
        units = [self._layer.mean_units(self._bag(sample)) for sample in samples.tolist()]
        if not units:
            return self.weights.score.new_zeros(0)
        own = (self._rows(samples) * self.weights.table).sum(1)
        return (torch.stack(units) * self.weights.score).sum(1) + own

    @cached_property
    def _layer(self) -> HiddenLayer:
        return HiddenLayer.of(self.weights, self.dtype)

    def _bag(self, sample: int) -> Tensor:
        return self.patients.bags.bag(sample)

    def _rows(self, samples: IntArray) -> Tensor:
        table = self.patients.table
        if table is None:
            return self.weights.table.new_zeros((samples.size, 0))
        return table[torch.from_numpy(self.patients.patient[samples])].double()

    def _means(self, samples: IntArray) -> SlideMeans:
        bags = (self._bag(sample) for sample in samples.tolist())
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        return slide_means(self._layer, bags, samples.size, wide)

    def _means_by_kernel(self, samples: IntArray) -> SlideMeans | None:
        """The same by the GPU's own kernel; None where it is not asked for or does not fit."""
        if self.dtype != torch.bfloat16 or not self.weights.weight.is_cuda:
            return None
        from fedcox.models.gpu_kernels import fits, slope_sums

        tiles, index = self.patients.bags.packed(samples)
        if tiles.features.dtype != torch.float16 or not fits(*self.weights.weight.shape):
            return None
        means = slope_sums(
            tiles.features,
            tiles.offsets,
            tiles.sums,
            index,
            self.weights.weight.float(),
            self.weights.bias.float(),
            self.weights.slope,
        )
        return SlideMeans(means.features, means.factor)


@dataclass(frozen=True, eq=False)
class BagPhi(AbstractPhi):
    """Any module that looks at a slide, with or without the patient's row; one at a time."""

    module: LoadedModule
    patients: NetworkPatients
    coarse: bool

    def blocks(self, samples: IntArray) -> Iterator[tuple[slice, ScoredBlock]]:
        for place, sample in enumerate(samples.tolist()):
            phi = self._score(sample).reshape(1)
            yield slice(place, place + 1), GraphBlock(self.module, phi)

    @torch.no_grad()
    def scores(self, samples: IntArray) -> Tensor:
        parts = [self._score(sample).double() for sample in samples.tolist()]
        return torch.stack(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def _score(self, sample: int) -> Tensor:
        parameter = self.module.parameters[0]
        bag = self.patients.bags.bag(sample).to(parameter.device, parameter.dtype)
        table = self.patients.table
        own = () if table is None else (table[self.patients.patient[sample]],)
        half = torch.autocast(parameter.device.type, torch.bfloat16)
        with half if self.coarse else nullcontext():
            score = self.module.module(*own, bag)
        return _one_each(score, 1)[0]


@dataclass(frozen=True, eq=False)
class TablePhi(AbstractPhi):
    """Any module that looks at rows of a table, many at a time."""

    module: LoadedModule
    patients: NetworkPatients

    def blocks(self, samples: IntArray) -> Iterator[tuple[slice, ScoredBlock]]:
        for first in range(0, samples.size, _ROWS):
            chosen = torch.from_numpy(samples[first : first + _ROWS])
            rows = self.patients.rows[chosen]
            phi = _one_each(self.module.module(rows), rows.shape[0])
            yield slice(first, first + rows.shape[0]), GraphBlock(self.module, phi, rows)

    @torch.no_grad()
    def scores(self, samples: IntArray) -> Tensor:
        parts = [block.phi for _, block in self.blocks(samples)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class GraphBlock:
    """Scores with the graph that made them; it serves once.

    `rows` are those of a table that they are of; without any it is one score.
    """

    module: LoadedModule
    graph: Tensor
    rows: Tensor | None = None

    @property
    def phi(self) -> Tensor:
        return self.graph.detach().double()

    def pull(self, slopes: Tensor) -> Tensor:
        # Of a single number: slopes handed over apart would make torch import sympy.
        parts = torch.autograd.grad(
            (self.graph * slopes.to(self.graph.dtype)).sum(),
            self.module.parameters,
            allow_unused=True,
            materialize_grads=True,
        )
        return torch.cat([part.double().reshape(-1) for part in parts])

    def jacobian(self) -> Tensor:
        if self.rows is None:
            return self.pull(torch.ones_like(self.graph))[None]
        try:
            slopes = self._with_own_weights(self.rows)
        except RuntimeError:  # a module may do what vmap cannot follow
            each = [_one_each(self.module.module(row[None]), 1) for row in self.rows]
            return torch.cat([GraphBlock(self.module, phi).jacobian() for phi in each])
        return torch.cat([slope.double().flatten(1) for slope in slopes], 1)

    def _with_own_weights(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Give each row a copy of the weights: what the sum of all scores says of its copy."""
        copies = {
            name: weight.detach().expand(rows.shape[0], *weight.shape).clone().requires_grad_()
            for name, weight in zip(self.module.names, self.module.parameters, strict=True)
        }

        def score(weights: dict[str, Tensor], row: Tensor) -> Tensor:
            return _one_each(functional_call(self.module.module, weights, (row[None],)), 1)[0]

        scores = vmap(score)(copies, rows)
        return torch.autograd.grad(
            scores.sum(), list(copies.values()), allow_unused=True, materialize_grads=True
        )


def _one_each(score: Tensor, samples: int) -> Tensor:
    if not isinstance(score, Tensor):
        raise WeightsError(
            f"The network gave a {type(score).__name__}, not a tensor.",
            ["It must give one number, the risk, for each sample, as a tensor."],
        )
    if score.numel() != samples:
        raise WeightsError(
            f"The network gave {score.numel()} number(s) for {samples} sample(s).",
            ["It must give one number, the risk, for each."],
        )
    return score.reshape(samples)


@dataclass(frozen=True, eq=False)
class NetworkPhi:
    """phi of an architecture at any θ; a module is made once in each thread."""

    architecture: AbstractArchitecture
    precision: Precision
    device: str
    _own: local = field(default_factory=local, repr=False)  # modules are not for two threads

    @property
    def dtype(self) -> torch.dtype:
        """That of tables and of modules; bfloat16 is for products over tiles."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def at(self, theta: FloatArray, patients: NetworkPatients) -> AbstractPhi:
        """Give phi with the weights `theta`, until it is asked for with other ones."""
        check_theta(self.architecture, theta)
        coarse = self.precision == "bfloat16"
        if isinstance(self.architecture, TileScorer | TileScorerWithTable):
            whole = torch.tensor(theta, dtype=torch.float64, device=self.device)
            weights = TileScorerWeights.of(self.architecture, whole)
            return TilePhi(weights, patients, torch.bfloat16 if coarse else self.dtype)
        loaded: LoadedModule | None = getattr(self._own, "loaded", None)
        module = loaded or LoadedModule.of(build(self.architecture).to(self.device, self.dtype))
        assign(module.module, theta)
        phi: AbstractPhi = TablePhi(module, patients)
        if self.architecture.inputs != "table":
            phi = BagPhi(module, patients, coarse)
        if loaded is None and patients.patients:
            _check_scores(self.architecture.name, phi, patients.patients)
            self._own.loaded = module
        return phi


def _check_scores(name: str, phi: AbstractPhi, samples: int) -> None:
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
