"""Cox's partial likelihood of scores phi, over the samples of one batch: the baseline.

Every event compares its sample with those of the batch still at risk, so the loss of a batch
depends on who is in it; tied events as Breslow has them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
