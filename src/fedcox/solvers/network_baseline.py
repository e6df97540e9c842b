"""The baseline that goes with a trained network: fitted again, without weights, θ fixed.

Weights shift every hazard, and a training that ends by the clock leaves the baseline where it
is. With the network as it is, the loss is a sum of convex functions of one α each, so Newton's
method on all of them at once is Newton's method on each.

After training with weights one factor of all risks is fitted with the baseline. Weights flatten
risks with the complementary log-log link, since weighted events are no events of such a model;
with either grouped link a training of few epochs leaves them too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Patients, Point, Problem, full_curvature
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail

_ROUNDS = 50
#: A step this short moves no hazard in any digit that is shown.
_CLOSE = 1e-9
#: Events of an interval that a baseline may leave unexplained.
_LEFT_OVER = 1e-3
#: Far from the optimum the curvature of logits vanishes, and a step would lead to nowhere.
_LONGEST = 2.0


def refitted_baseline(
    federation: Federation,
    setting: Setting,
    alpha: FloatArray,
    beta: FloatArray,
    slope: float = 1.0,
) -> FloatArray:
    """α at the optimum of the loss without weights, from `alpha` on; one round a step."""
    loss = _ScoredLoss(setting, beta)
    here, factor = np.array(alpha), np.array([slope])
    for _ in range(_ROUNDS):
        found = loss(federation, Point(here.copy(), factor), Detail.DIAGONAL)
        if not np.isfinite(found.loss):
            raise _astray("some risks are no numbers")
        curvature = full_curvature(found).alpha
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.where(found.alpha == 0.0, 0.0, found.alpha / curvature)
        step = np.clip(np.nan_to_num(step, nan=0.0), -_LONGEST, _LONGEST)
        here -= step
        if float(np.abs(step).max(initial=0.0)) < _CLOSE:
            return here
    # Where nobody had the event α goes down for ever, and nothing is left to be explained.
    if float(np.abs(found.alpha).max(initial=0.0)) > _LEFT_OVER:
        raise _astray("no baseline goes with its risks")
    return here


def _astray(how: str) -> InputError:
    return InputError(
        f"The training left all bounds: {how}.",
        ["Take a smaller learning_rate, or look for features that are far too large."],
    )


def rescaled_baseline(
    federation: Federation, setting: Setting, alpha: FloatArray, beta: FloatArray
) -> tuple[FloatArray, float]:
    """α, and the factor of all risks that goes best with it, without weights."""
    # From one curve for all: risks of a training that went astray may be of any size, and
    # hazards that are all zero or one have no curvature to go by.
    start = refitted_baseline(federation, setting, alpha, beta, 0.0)
    loss, none = _ScoredLoss(setting, beta), np.zeros(1)
    found = Newton().minimise(federation, Problem(loss, start, none, none, 1, 1.0))
    slope = float(found.beta[0])
    if np.isfinite(slope) and slope > 0.0:
        return found.alpha, slope
    return start, 0.0  # risks that say nothing, or the contrary, on these very patients


@dataclass(frozen=True, eq=False)
class _ScoredLoss:
    """−log L of the model whose one covariate is the network's risk."""

    setting: Setting
    weights: FloatArray

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        query = BaselineSlopesAt(self.setting, at.alpha, self.weights, at.beta, detail)
        return federation.ask(query)
