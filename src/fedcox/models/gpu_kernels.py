"""The slide model on a GPU, in two kernels: sums over tiles, then loss and gradient of slides.

First, which tiles pass each hidden unit, and the sum of their features, in one reading. A
tile's hidden values are h = W·x + b, and a leaky unit multiplies them by 1 or by `slope`. All
that phi and its gradient need of a slide are the sums over its tiles of these factors, and of
the factors times x; see `tile_scorer.py`. Hidden values never leave the chip: per slide the
features are read once and two small matrices are written.

Then the same sums as `losses.py` and `tile_scorer.py` make of many small operations, each of
which would take a GPU longer to begin than to do. The loss is in float64.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from fedcox.models.losses import LARGE, LARGEST_EXPONENT, SMALL, WeighedCells
from fedcox.models.predictors.network import NetworkLink
from fedcox.models.tile_scorer import TileScorerWeights

#: Tiles per block, and the most hidden units and features: what fits a multiprocessor.
_TILES, _MOST_HIDDEN, _MOST_FEATURES = 64, 128, 256


_SMALL, _LARGE = tl.constexpr(SMALL), tl.constexpr(LARGE)
_LARGEST_EXPONENT = tl.constexpr(LARGEST_EXPONENT)
_INTERVALS, _SLIDES = 128, 16  # that are looked at together


@triton.jit  # type: ignore[untyped-decorator]
def _passing_sums(  # type: ignore[no-untyped-def]
    features,
    offsets,
    chosen,
    weight,
    bias,
    sums,
    counts,
    splits,
    width,
    hidden: tl.constexpr,
    padded: tl.constexpr,
    block: tl.constexpr,
):
    place, part = tl.program_id(0), tl.program_id(1)
    slide = tl.load(chosen + place)
    first, last = tl.load(offsets + slide), tl.load(offsets + slide + 1)
    blocks = tl.cdiv(last - first, block)
    each = tl.cdiv(blocks, splits)
    start = first + part * each * block
    stop = tl.minimum(start + each * block, last)
    units, columns = tl.arange(0, hidden), tl.arange(0, padded)
    rows = tl.arange(0, block)
    inside = columns < width
    w = tl.load(weight + units[:, None] * width + columns[None, :], inside[None, :], other=0.0)
    b = tl.load(bias + units)
    total = tl.zeros((hidden, padded), tl.float32)
    count = tl.zeros((hidden,), tl.float32)
    for tile in range(start, stop, block):
        here = tile + rows < stop
        x = tl.load(
            features + (tile + rows)[:, None] * width + columns[None, :],
            here[:, None] & inside[None, :],
            other=0.0,
        )
        value = tl.dot(w, tl.trans(x)) + b[:, None]
        passing = tl.where((value > 0.0) & here[None, :], 1.0, 0.0)
        count += tl.sum(passing, 1)
        total = tl.dot(passing.to(x.dtype), x, total)
    at = (place * splits + part) * hidden
    tl.store(counts + at + units, count)
    out = sums + (at + units)[:, None] * width + columns[None, :]
    tl.store(out, total, inside[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def _means(  # type: ignore[no-untyped-def]
    sums,
    counts,
    offsets,
    chosen,
    feature_sums,
    weight,
    mean,
    factor,
    units,
    slope,
    splits,
    width,
    hidden: tl.constexpr,
    padded: tl.constexpr,
):
    place, unit = tl.program_id(0), tl.program_id(1)
    slide = tl.load(chosen + place)
    tiles = (tl.load(offsets + slide + 1) - tl.load(offsets + slide)).to(tl.float32)
    columns = tl.arange(0, padded)
    inside = columns < width
    total = tl.zeros((padded,), tl.float32)
    count = 0.0
    for part in range(splits):
        at = (place * splits + part) * hidden + unit
        total += tl.load(sums + at * width + columns, inside, other=0.0)
        count += tl.load(counts + at)
    everyone = tl.load(feature_sums + slide * width + columns, inside, other=0.0)
    value = (total + slope * (everyone - total)) / tiles
    tl.store(mean + (place * hidden + unit) * width + columns, value, inside)
    own = tl.load(weight + unit * width + columns, inside, other=0.0)
    tl.store(units + place * hidden + unit, tl.sum(own * value))
    tl.store(factor + place * hidden + unit, slope + (1.0 - slope) * (count / tiles))


def fits(hidden: int, features: int) -> bool:
    """Whether the kernel can be used for such a network."""
    power = hidden & (hidden - 1) == 0
    return power and 16 <= hidden <= _MOST_HIDDEN and features <= _MOST_FEATURES


class SlopeSums(NamedTuple):
    """Means over the tiles of each chosen slide, all float32."""

    features: torch.Tensor  # (chosen, hidden, features) of the factor times features
    factor: torch.Tensor  # (chosen, hidden)
    products: torch.Tensor  # (chosen, hidden) of each unit's weights with the first of these


def slope_sums(
    features: torch.Tensor,
    offsets: torch.Tensor,
    feature_sums: torch.Tensor,
    chosen: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    slope: float,
) -> SlopeSums:
    """Read the chosen slides once.

    `features` is (tiles of all slides, features) in half precision, slide i having the rows
    from `offsets`[i] to `offsets`[i + 1], with sum `feature_sums`[i] in float32. `weight` is
    (hidden, features) and `bias` (hidden,), float32. The answers have the same bits every time.
    """
    slides, (hidden, width) = int(chosen.numel()), weight.shape
    splits = _splits(slides, _processors(features.device.index or 0))
    device = features.device
    sums = torch.empty((slides, splits, hidden, width), device=device)
    counts = torch.empty((slides, splits, hidden), device=device)
    mean = torch.empty((slides, hidden, width), device=device)
    factor, products = torch.empty((2, slides, hidden), device=device)
    block = max(16, triton.next_power_of_2(width))
    _passing_sums[(slides, splits)](
        features,
        offsets,
        chosen,
        weight.to(features.dtype),
        bias,
        sums,
        counts,
        splits,
        width,
        hidden=hidden,
        padded=block,
        block=_TILES,
        num_warps=8,
        num_stages=3,
    )
    _means[(slides, hidden)](
        sums,
        counts,
        offsets,
        chosen,
        feature_sums,
        weight,
        mean,
        factor,
        products,
        slope,
        splits,
        width,
        hidden=hidden,
        padded=block,
        num_warps=1,
    )
    return SlopeSums(mean, factor, products)


@cache
def _processors(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def _splits(slides: int, processors: int) -> int:
    """Into how many parts a slide is cut, so that no multiprocessor waits for the last ones."""

    def busy(splits: int) -> float:
        parts = slides * splits
        return parts / (processors * -(-parts // processors))

    # A part more costs one more small matrix to write; it must be worth it.
    return max(range(1, 33), key=lambda splits: (busy(splits) - 0.01 * splits, -splits))


@triton.jit  # type: ignore[untyped-decorator]
def _survival(z, link: tl.constexpr):  # type: ignore[no-untyped-def]
    """Cost and slope of an interval survived."""
    if link == "logit":
        small = tl.exp(-tl.abs(z))
        cost = tl.maximum(z, 0.0) + libdevice.log1p(small)
        slope = tl.where(z > 0.0, 1.0, small) / (1.0 + small)
    else:
        cost = tl.exp(z)
        slope = cost
    return cost, slope


@triton.jit  # type: ignore[untyped-decorator]
def _event(z, link: tl.constexpr):  # type: ignore[no-untyped-def]
    """Cost and slope of the event."""
    if link == "logit":
        cost, slope = _survival(-z, link)
        slope = -slope
    elif link == "log":
        cost = -z
        slope = tl.zeros_like(z) - 1.0
    else:
        v = tl.exp(tl.minimum(z, _LARGEST_EXPONENT))
        some = tl.minimum(tl.maximum(v, _SMALL), _LARGE)
        cost = tl.where(v < _SMALL, v / 2 - v * v / 24 - z, -tl.log(-libdevice.expm1(-some)))
        cost = tl.where(v > 1.0, -libdevice.log1p(-tl.exp(-v)), cost)
        ratio = tl.where(v < _SMALL, 1 - v / 2 + v * v / 12, some / libdevice.expm1(some))
        slope = -tl.where(v > _LARGE, 0.0, ratio)
    return cost, slope


@triton.jit  # type: ignore[untyped-decorator]
def _losses(  # type: ignore[no-untyped-def]
    products,
    factor,
    bias,
    score,
    alpha,
    survived,
    event,
    last,
    chosen,
    times,
    units,
    slopes,
    costs,
    intervals,
    hidden: tl.constexpr,
    block: tl.constexpr,
    link: tl.constexpr,
):
    place = tl.program_id(0)
    slide, often = tl.load(chosen + place), tl.load(times + place)
    k = tl.arange(0, hidden)
    at = place * hidden + k
    own = tl.load(products + at) + tl.load(bias + k) * tl.load(factor + at)
    tl.store(units + at, own)
    phi = tl.sum(own * tl.load(score + k)).to(tl.float64)
    of_event, interval_of_event = tl.load(event + slide) * often, tl.load(last + slide)
    row = costs + place * (intervals + 1)
    cost = tl.zeros((block,), tl.float64)
    total = tl.zeros((block,), tl.float64)
    for first in range(0, intervals, block):
        m = first + tl.arange(0, block)
        inside = m < intervals
        passed = tl.load(survived + slide * intervals + m, inside, other=0.0) * often
        happened = tl.where(m == interval_of_event, of_event, 0.0)
        z = phi + tl.load(alpha + m, inside, other=0.0)
        # Where nobody is at risk z could be anything, and must still count nothing.
        of_survival, slope = _survival(tl.where(passed > 0.0, z, 0.0), link)
        own_cost, own_slope = _event(tl.where(happened > 0.0, z, 0.0), link)
        slope = passed * slope + happened * own_slope
        cost += passed * of_survival + happened * own_cost
        total += slope
        tl.store(row + 1 + m, slope, inside)
    tl.store(row, tl.sum(cost))
    tl.store(slopes + place, tl.sum(total).to(tl.float32))


@triton.jit  # type: ignore[untyped-decorator]
def _pulled(  # type: ignore[no-untyped-def]
    mean,
    factor,
    units,
    slopes,
    score,
    found,
    slides,
    width,
    hidden: tl.constexpr,
    padded: tl.constexpr,
    block: tl.constexpr,
):
    unit = tl.program_id(0)
    columns = tl.arange(0, padded)
    inside = columns < width
    of_weight = tl.zeros((padded,), tl.float32)
    of_bias = tl.zeros((block,), tl.float32)
    of_score = tl.zeros((block,), tl.float32)
    for first in range(0, slides, block):
        places = first + tl.arange(0, block)
        here = places < slides
        slope = tl.load(slopes + places, here, other=0.0)
        at = places * hidden + unit
        rows = tl.load(
            mean + at[:, None] * width + columns[None, :],
            here[:, None] & inside[None, :],
            other=0.0,
        )
        of_weight += tl.sum(slope[:, None] * rows, 0)
        of_bias += slope * tl.load(factor + at, here, other=0.0)
        of_score += slope * tl.load(units + at, here, other=0.0)
    weight = tl.load(score + unit)
    tl.store(found + unit * width + columns, (weight * of_weight).to(tl.float64), inside)
    others = found + hidden * width + unit
    tl.store(others, (weight * tl.sum(of_bias)).to(tl.float64))
    tl.store(others + hidden, tl.sum(of_score).to(tl.float64))


def loss_and_gradient(
    weights: TileScorerWeights,
    alpha: torch.Tensor,
    means: SlopeSums,
    cells: WeighedCells,
    chosen: torch.Tensor,
    times: torch.Tensor,
    *,
    link: NetworkLink,
) -> torch.Tensor:
    """Slopes in θ, the loss, slopes in α: one after the other in float64.

    `means` are those of the slides `chosen` out of `cells`, each counting so many `times`. The
    answers have the same bits every time.
    """
    (hidden, width), (slides, intervals) = weights.weight.shape, (len(chosen), alpha.numel())
    units = torch.empty_like(means.products)
    slopes = units.new_empty(slides)
    costs = alpha.new_empty((slides, 1 + intervals))
    _losses[(slides,)](
        means.products,
        means.factor,
        weights.bias,
        weights.score,
        alpha,
        cells.survived,
        cells.event,
        cells.last,
        chosen,
        times,
        units,
        slopes,
        costs,
        intervals,
        hidden=hidden,
        block=_INTERVALS,
        link=link,
        num_warps=4,
    )
    of_theta = hidden * (width + 2)
    found = alpha.new_empty(of_theta + 1 + intervals)
    _pulled[(hidden,)](
        means.features,
        means.factor,
        units,
        slopes,
        weights.score,
        found,
        slides,
        width,
        hidden=hidden,
        padded=max(16, triton.next_power_of_2(width)),
        block=_SLIDES,
        num_warps=8,
    )
    torch.sum(costs, 0, out=found[of_theta:])
    return found
