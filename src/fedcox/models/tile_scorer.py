"""The paper's slide model: a score for each tile, and their mean for the slide.

    score of tile x = Σ_k w_k · leaky(W_k·x + b_k)         phi = mean over the slide's tiles

The unit k multiplies what it gets by a factor s, 1 above zero and `slope` below. With the means
over tiles J_k = mean(s_k x) and c_k = mean(s_k), phi and all its derivatives are known:

    u_k = W_k·J_k + b_k c_k            phi = w·u
    ∂phi/∂W_k = w_k J_k                ∂phi/∂b_k = w_k c_k            ∂phi/∂w = u

So one reading of the tiles gives the slide's exact gradient, and scores of single tiles are
needed only for pictures. The factors are slope + (1 − slope) · [unit passes], which leaves one
matrix product of zeros and ones with the features beside that of the hidden layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, leaky_relu_

from fedcox.models.architecture import TileScorer, TileScorerWithTable
from fedcox.survival.bags import TileFeatures
from fedcox.survival.cohort import FloatArray

#: Tiles that are looked at together: on a processor, what stays in its cache.
_TILES = 2048
_TILES_ON_GPU = 2**17


class TileScorerNetwork(nn.Module):
    """The model as a module, for people who train with loops of their own."""

    def __init__(self, features: int, hidden: int, slope: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.slope = slope

    def forward(self, bag: Tensor) -> Tensor:
        units = leaky_relu(self.hidden(bag), self.slope)
        # The mean commutes with the last layer, so the scores of tiles need not exist.
        score: Tensor = self.score(units.mean(0))
        return score[0]


class TileScorerWithTableNetwork(nn.Module):
    """The same plus a linear term of the patient's columns."""

    def __init__(self, features: int, columns: int, hidden: int, slope: float) -> None:
        super().__init__()
        self.tiles = TileScorerNetwork(features, hidden, slope)
        self.table = nn.Linear(columns, 1, bias=False)

    def forward(self, row: Tensor, bag: Tensor) -> Tensor:
        score: Tensor = self.tiles(bag) + self.table(row)[0]
        return score


@dataclass(frozen=True, eq=False)
class TileScorerWeights:
    """θ taken apart: W, b, w, and the coefficients of the table's columns, if it has any."""

    weight: Tensor  # (hidden, features)
    bias: Tensor  # (hidden,)
    score: Tensor  # (hidden,)
    table: Tensor  # (columns,)
    slope: float

    @classmethod
    def of(
        cls, architecture: TileScorer | TileScorerWithTable, theta: Tensor
    ) -> TileScorerWeights:
        hidden, features = architecture.hidden, architecture.features
        weight, bias, score, table = torch.split(
            theta, [hidden * features, hidden, hidden, theta.numel() - hidden * (features + 2)]
        )
        return cls(
            weight.reshape(hidden, features), bias, score, table, float(architecture.slope)
        )


class SlideMeans(NamedTuple):
    """J and c of some slides: all that phi and its gradient need of their tiles."""

    features: Tensor  # (slides, hidden, features)
    factor: Tensor  # (slides, hidden)


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """The first layer in the precision it is computed in, with room for some tiles."""

    weight: Tensor  # (features, hidden)
    threshold: Tensor  # (hidden,) −b: a unit passes where W·x is above it
    slope: float
    tiles: Tensor  # (most tiles, features)
    units: Tensor  # (most tiles, hidden)

    @classmethod
    def of(cls, weights: TileScorerWeights, dtype: torch.dtype) -> HiddenLayer:
        hidden, features = weights.weight.shape
        most = _TILES_ON_GPU if weights.weight.is_cuda else _TILES
        coarse = weights.weight.to(dtype)
        return cls(
            coarse.t(),
            -weights.bias.to(dtype),
            weights.slope,
            coarse.new_empty((most, features)),
            coarse.new_empty((most, hidden)),
        )

    def blocks(self, bag: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Some tiles at a time, with W·x of each unit; the next ones overwrite both."""
        for first in range(0, bag.shape[0], self.tiles.shape[0]):
            x = bag[first : first + self.tiles.shape[0]]
            if x.dtype != self.weight.dtype or x.device != self.weight.device:
                x = self.tiles[: x.shape[0]].copy_(x)
            yield x, torch.mm(x, self.weight, out=self.units[: x.shape[0]])

    def means(self, bag: Tensor, out: SlideMeans) -> None:
        """J and c of one slide."""
        (features, factor), tiles = out, bag.shape[0]
        features.zero_()
        factor.zero_()
        total = features.new_zeros(features.shape[1])
        coarse = self.weight.dtype == torch.bfloat16
        for x, units in self.blocks(bag):
            passing = units.gt_(self.threshold)
            if coarse:
                features += torch.mm(passing.t(), x)
            else:
                features.addmm_(passing.t(), x)
            factor += passing.sum(0, dtype=factor.dtype)
            total += x.sum(0, dtype=total.dtype)
        features.mul_(1 - self.slope).add_(total, alpha=self.slope).div_(tiles)
        factor.mul_((1 - self.slope) / tiles).add_(self.slope)

    def mean_units(self, bag: Tensor) -> Tensor:
        """The mean of every unit over a slide's tiles, float64: phi needs no more."""
        total = torch.zeros(
            self.weight.shape[1], dtype=torch.float64, device=self.weight.device
        )
        wide = torch.float32 if self.weight.dtype == torch.bfloat16 else self.weight.dtype
        for _, units in self.blocks(bag):
            passed = leaky_relu_(units.sub_(self.threshold), self.slope)
            # Numbers of half precision are summed in single.
            total += passed.sum(0, dtype=wide)
        return total / bag.shape[0]


@dataclass(frozen=True, eq=False)
class ScoredMeans:
    """phi of some slides, and its derivatives whenever they are asked for. All in float64."""

    weights: TileScorerWeights  # float64
    means: SlideMeans
    rows: Tensor  # (slides, columns), or no columns

    @cached_property
    def units(self) -> Tensor:
        """u: (slides, hidden)."""
        weights, means = self.weights, self.means
        return (weights.weight * means.features).sum(2) + weights.bias * means.factor

    @property
    def phi(self) -> Tensor:
        return (self.units * self.weights.score).sum(1) + (self.rows * self.weights.table).sum(
            1
        )

    def pull(self, slopes: Tensor) -> Tensor:
        """Σ_i slopes_i · ∂phi_i/∂θ: (weights,)."""
        score = self.weights.score
        hidden = torch.tensordot(slopes, self.means.features.double(), 1)
        return torch.cat(
            [
                (score[:, None] * hidden).reshape(-1),
                score * (slopes @ self.means.factor.double()),
                slopes @ self.units,
                slopes @ self.rows,
            ]
        )

    def jacobian(self) -> Tensor:
        """∂phi/∂θ of each slide: (slides, weights)."""
        score = self.weights.score
        return torch.cat(
            [
                (score[:, None] * self.means.features).flatten(1),
                score * self.means.factor,
                self.units,
                self.rows,
            ],
            1,
        )


def slide_means(
    layer: HiddenLayer, bags: Iterator[Tensor], slides: int, dtype: torch.dtype
) -> SlideMeans:
    """J and c of so many slides, one after the other, so that none depends on the others."""
    features, hidden = layer.weight.shape
    means = SlideMeans(
        layer.weight.new_empty((slides, hidden, features), dtype=dtype),
        layer.weight.new_empty((slides, hidden), dtype=dtype),
    )
    for place, bag in enumerate(bags):
        layer.means(bag, SlideMeans(means.features[place], means.factor[place]))
    return means


def tile_scores(
    features: TileFeatures, architecture: TileScorer | TileScorerWithTable, theta: FloatArray
) -> FloatArray:
    """The exact score of every tile of a slide, (tiles,); their mean is the slide's score.

    With a table, the patient's own term is the same for all tiles and left out.
    """
    weights = TileScorerWeights.of(architecture, torch.tensor(theta, dtype=torch.float64))
    layer = HiddenLayer.of(weights, torch.float64)
    bag = torch.tensor(features)
    parts = [
        leaky_relu(units - layer.threshold, layer.slope) @ weights.score
        for _, units in layer.blocks(bag)
    ]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)
