"""The losses of scores phi: by interval, each score computed once; and Cox's, in a batch.

A sample is a slide, or a patient where phi looks at a table. With z = α_m + phi it costs f(z)
in every interval that it survives, a part of f(z) in the one it leaves in, and g(z) for its
event there:

    log        f = e^z               g = −z
    cloglog    f = e^z               g = −log(1 − exp(−e^z))
    logit      f = log(1 + e^z)      g = log(1 + e^−z)

Events may weigh more (`event_weight`), a sample may weigh less. This is minus the
log-likelihood of the stacked rows, which are never built: for log and cloglog the sum over
intervals is e^phi · Σ_m e^α_m.

Cox's partial likelihood is for comparison: every event compares its sample with those of the
batch still at risk, so it depends on who is in the batch; tied events as Breslow has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from fedcox.models.network_patients import PlacedSamples
from fedcox.models.predictors.network import NetworkLink

_CELLS = 2**22  # pairs of sample and interval that are looked at together
SMALL = 1e-4  # below it 1 − v/2 + v²/12 is v / (e^v − 1) to rounding
LARGE = 40.0  # above it e^−v adds nothing to one
LARGEST_EXPONENT = 80.0  # of e^z: beyond, the event was certain, and all terms are zero


class LossAndSlopes(NamedTuple):
    """Summed over samples, but for the slopes in phi, of which each sample has its own."""

    loss: Tensor  # ()
    phi: Tensor  # (samples,)
    alpha: Tensor  # (intervals,)


class SampleSlopes(NamedTuple):
    """Sample by sample: its cost, and the slope of it in each α_m; their sum is that in phi."""

    cost: Tensor  # (samples,)
    alpha: Tensor  # (samples, intervals)


def loss_and_slopes(
    phi: Tensor,
    alpha: Tensor,
    placed: PlacedSamples,
    *,
    link: NetworkLink,
    event_weight: float = 1.0,
) -> LossAndSlopes:
    """The loss of the scores `phi` (samples,) on the baseline `alpha` (intervals,).

    Computed in the precision of `phi`. For logit the work grows with samples times intervals,
    for the others with their sum.
    """
    if link != "logit":
        return _proportional(phi, alpha, placed, link, event_weight)
    loss, own, total = phi.new_zeros(()), [phi.new_zeros(0)], torch.zeros_like(alpha)
    for part in _parts(phi.numel(), alpha.numel()):
        terms = sample_slopes(
            phi[part], alpha, placed.take(part), link=link, event_weight=event_weight
        )
        loss = loss + terms.cost.sum()
        own.append(terms.alpha.sum(1))
        total = total + terms.alpha.sum(0)
    return LossAndSlopes(loss, torch.cat(own), total)


def sample_slopes(
    phi: Tensor,
    alpha: Tensor,
    placed: PlacedSamples,
    *,
    link: NetworkLink,
    event_weight: float = 1.0,
) -> SampleSlopes:
    """What each sample costs, and its slope in every interval; zero where it is not at risk."""
    return slopes_of_cells(phi, alpha, weighed_cells(placed, alpha, event_weight), link=link)


class WeighedCells(NamedTuple):
    """What each cell of some samples counts; it depends on neither phi nor α."""

    survived: Tensor  # (samples, intervals) without the event
    event: Tensor  # (samples,) with it, zero where there is none
    last: Tensor  # (samples,) the interval of the event


def weighed_cells(placed: PlacedSamples, alpha: Tensor, event_weight: float) -> WeighedCells:
    """The cells of these samples in the intervals of `alpha`, of which only the size counts."""
    last, weight = _events(placed, alpha, event_weight)
    return WeighedCells(_share_survived(placed, alpha), weight, last)


def slopes_of_cells(
    phi: Tensor, alpha: Tensor, cells: WeighedCells, *, link: NetworkLink
) -> SampleSlopes:
    """What each sample costs, and its slope in every interval."""
    survived, event, last = cells
    # Where nobody is at risk z could be anything, and must still count nothing.
    z = torch.where(survived > 0, phi[:, None] + alpha, 0.0)
    cost, slope = _survival(z, link)
    own_cost, own_slope = _event_terms(phi, alpha, last, event, link)
    slope = (survived * slope).scatter_add(1, last[:, None], own_slope[:, None])
    return SampleSlopes((survived * cost).sum(1) + own_cost, slope)


def cell_loss_and_slopes(
    phi: Tensor,
    alpha: Tensor,
    cells: tuple[Tensor, Tensor],
    placed: PlacedSamples,
    *,
    link: NetworkLink,
    event_weight: float = 1.0,
) -> LossAndSlopes:
    """The same summed over some stacked rows: pairs of sample and interval, `cells`.

    A pair may be there several times; one that is not at risk adds nothing.
    """
    sample, interval = cells
    own = placed.take(sample)
    weight = own.weight.to(phi.dtype)
    leaving = interval == own.passed
    at_risk = (interval < own.passed).to(phi.dtype) + own.part.to(phi.dtype) * leaving
    happened = own.event & leaving
    z = torch.where((at_risk > 0) | happened, phi[sample] + alpha[interval], 0.0)
    cost, slope = _survival(torch.where(at_risk > 0, z, 0.0), link)
    own_cost, own_slope = _event(torch.where(happened, z, 0.0), link)
    share, of_event = weight * at_risk, weight * event_weight * happened
    cost, slope = share * cost + of_event * own_cost, share * slope + of_event * own_slope
    return LossAndSlopes(
        cost.sum(),
        _by_interval(slope, sample, phi.numel()),
        _by_interval(slope, interval, alpha.numel()),
    )


def _proportional(
    phi: Tensor, alpha: Tensor, placed: PlacedSamples, link: NetworkLink, event_weight: float
) -> LossAndSlopes:
    """Costs that add up: sums over intervals and over samples, never over pairs."""
    weight = placed.weight.to(phi.dtype)
    risk, rate = phi.exp(), alpha.exp()
    passed = torch.cat([rate.new_zeros(1), rate.cumsum(0)])  # (intervals + 1,)
    survived = weight * risk * passed[placed.passed]
    last, of_event = _events(placed, alpha, event_weight)
    partly = weight * placed.part.to(phi.dtype) * risk * rate[last]
    cost, slope = _event_terms(phi, alpha, last, of_event, link)
    # Those who pass interval m are those who pass more than m intervals.
    leaving = _by_interval(weight * risk, placed.passed, alpha.numel() + 1)
    remaining = leaving.flip(0).cumsum(0).flip(0)[1:]
    of_interval = (
        rate * remaining
        + _by_interval(partly, last, alpha.numel())
        + _by_interval(slope, last, alpha.numel())
    )
    loss = (survived + partly + cost).sum()
    return LossAndSlopes(loss, survived + partly + slope, of_interval)


def _share_survived(placed: PlacedSamples, alpha: Tensor) -> Tensor:
    """By how much each sample is at risk in each interval, beside its event there."""
    interval = torch.arange(alpha.numel(), device=alpha.device)
    whole = (interval < placed.passed[:, None]).to(alpha.dtype)
    leaving = interval == placed.passed[:, None]
    at_risk = whole + placed.part.to(alpha.dtype)[:, None] * leaving
    return placed.weight.to(alpha.dtype)[:, None] * at_risk


def _events(placed: PlacedSamples, alpha: Tensor, event_weight: float) -> tuple[Tensor, Tensor]:
    """The interval that each sample leaves in, and what its event there counts."""
    last = placed.passed.clamp(max=max(0, alpha.numel() - 1))
    return last, event_weight * placed.weight.to(alpha.dtype) * placed.event


def _event_terms(
    phi: Tensor, alpha: Tensor, last: Tensor, weight: Tensor, link: NetworkLink
) -> tuple[Tensor, Tensor]:
    """Cost and slope of each sample's event; zero without one."""
    z = torch.where(weight > 0, phi + alpha[last], 0.0)
    cost, slope = _event(z, link)
    return weight * cost, weight * slope


def _survival(z: Tensor, link: NetworkLink) -> tuple[Tensor, Tensor]:
    """The cost f, and its slope."""
    if link == "logit":
        return -logsigmoid(-z), torch.sigmoid(z)
    rate = z.exp()
    return rate, rate


def _event(z: Tensor, link: NetworkLink) -> tuple[Tensor, Tensor]:
    """The cost g, and its slope; neither overflows."""
    if link == "logit":
        return -logsigmoid(z), -torch.sigmoid(-z)
    if link == "log":
        return -z, -torch.ones_like(z)
    v = z.clamp(max=LARGEST_EXPONENT).exp()
    some = v.clamp(SMALL, LARGE)
    cost = torch.where(v < SMALL, v / 2 - v * v / 24 - z, -torch.log(-(-some).expm1()))
    cost = torch.where(v > 1, -torch.log1p(-(-v).exp()), cost)
    return cost, -_event_ratio(v)


def _event_ratio(v: Tensor) -> Tensor:
    """What v / (e^v − 1) is, from v = 0 on."""
    some = v.clamp(SMALL, LARGE)
    ratio = torch.where(v < SMALL, 1 - v / 2 + v * v / 12, some / some.expm1())
    return torch.where(v > LARGE, 0.0, ratio)


def _by_interval(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sums of `values` with the same `index`, in an order that is always the same."""
    if not values.is_cuda:
        return values.new_zeros(size).index_add(0, index, values)
    # On a GPU additions to one place happen in whichever order.
    total = values.new_zeros(size)
    place = torch.arange(size, device=values.device)
    for part in _parts(values.numel(), size):
        total = total + values[part] @ (index[part, None] == place).to(values.dtype)
    return total


def _parts(samples: int, intervals: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(1, intervals))
    for first in range(0, samples, step):
        yield slice(first, first + step)


class CoxSlopes(NamedTuple):
    """Minus the log partial likelihood of a batch, and its slope in each score."""

    loss: Tensor  # ()
    phi: Tensor  # (samples,)


def cox_loss(
    phi: Tensor, time: Tensor, event: Tensor, weight: Tensor | None = None
) -> CoxSlopes:
    """The loss of the scores `phi` (samples,); zero where a batch has no event.

    A sample of weight w stands for w samples, in the events and in the risk sets.
    """
    own = torch.ones_like(phi) if weight is None else weight.to(phi.dtype)
    order = time.argsort(descending=True, stable=True)
    order = order[own[order] > 0]
    log_risk = phi[order] + own[order].log()
    # Latest first, each risk set is a prefix that ends with the last sample of the same time.
    log_sums = torch.logcumsumexp(log_risk, 0)
    events = order[event[order]]
    slopes = torch.zeros_like(phi)
    if not events.numel():
        return CoxSlopes(phi.new_zeros(()), slopes)
    latest_first = -time[order]
    ends = torch.searchsorted(latest_first, -time[events], right=True) - 1
    log_totals = log_sums[ends]
    loss = (own[events] * (log_totals - phi[events])).sum()
    # A sample is at risk at every event no later than its own time.
    hazard = torch.logcumsumexp((own[events].log() - log_totals).flip(0), 0)
    before = torch.searchsorted(time[events].flip(0).contiguous(), time[order], right=True)
    expected = (log_risk + hazard[(before - 1).clamp(min=0)]).exp() * (before > 0)
    slopes[order] = expected
    slopes[events] -= own[events]
    return CoxSlopes(loss, slopes)
