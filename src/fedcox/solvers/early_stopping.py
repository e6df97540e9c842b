"""When has training gone on for long enough? Where held-out patients no longer gain."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedcox.solvers.network_solver import EpochLoss

#: A smaller gain, in parts of the loss, is rounding, which differs between splits of patients.
_GAIN = 1e-6


def best_epoch(epochs: Sequence[EpochLoss]) -> int:
    """The epoch with the least loss on held-out patients; the last one without any."""
    best, least = 0, math.inf
    for epoch in epochs:
        if epoch.validation is None:
            best = epoch.epoch
        elif best == 0 or _gains(epoch.validation, least):
            best, least = epoch.epoch, epoch.validation
    return best


def _gains(loss: float, least: float) -> bool:
    """Whether a loss is less; any number is less than none."""
    if not math.isfinite(least):
        return math.isfinite(loss)
    return least - loss > _GAIN * abs(least)


def is_over(epochs: Sequence[EpochLoss], most: int, patience: int | None) -> bool:
    """Whether all epochs are done, or the last `patience` of them gained nothing."""
    if len(epochs) >= most:
        return True
    if patience is None or not epochs or epochs[-1].validation is None:
        return False
    return len(epochs) - best_epoch(epochs) >= patience
