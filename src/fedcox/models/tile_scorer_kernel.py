"""On a GPU: which tiles pass each hidden unit, and the sum of their features, in one reading.

A tile's hidden values are h = W·x + b, and a leaky unit multiplies them by 1 or by `slope`. All
that phi and its gradient need of a slide are the sums over its tiles of these factors, and of
the factors times x; see `tile_scorer.py`. Hidden values never leave the chip: per slide the
features are read once and two small matrices are written.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl

#: Tiles per block, and the most hidden units and features: what fits a multiprocessor.
_TILES, _MOST_HIDDEN, _MOST_FEATURES = 64, 128, 256


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
