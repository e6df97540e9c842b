"""On a GPU: loss and gradient of some slides from the means over their tiles, in two kernels.

The same sums as `discrete_time_loss.py` and `tile_scorer.py` make of many small operations,
each of which would take a GPU longer to begin than to do. The loss is in float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from fedcox.models.discrete_time_loss import LARGE, LARGEST_EXPONENT, SMALL, WeighedCells
from fedcox.models.tile_scorer import TileScorerWeights
from fedcox.models.tile_scorer_kernel import SlopeSums
from fedcox.survival.link import LinkName

_SMALL, _LARGE = tl.constexpr(SMALL), tl.constexpr(LARGE)
_LARGEST_EXPONENT = tl.constexpr(LARGEST_EXPONENT)
_INTERVALS, _SLIDES = 128, 16  # that are looked at together


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
    link: LinkName,
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
