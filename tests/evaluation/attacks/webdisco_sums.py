"""WebDISCO's sums as a coordinator would read them; no command does, no hospital answers."""

from __future__ import annotations

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate
from fedcox.evaluation.attacks.observed_sums import LifeTable
from fedcox.evaluation.attacks.single_patients import GroupSums, single_patients
from fedcox.survival.cohort import FloatArray
from fedcox.survival.risk_set_moments import RiskSetMoments


def telescope_risk_sets(
    first: RiskSetMoments,
    table: LifeTable,
    second: RiskSetMoments | None = None,
    beta: FloatArray | None = None,
) -> list[Candidate]:
    """Single patients in WebDISCO's sums at β = 0, and pairs with those at another `beta`."""
    sums = GroupSums(first.first)
    claims = single_patients(sums, table)
    if second is None or beta is None:
        return claims
    for interval in np.flatnonzero(np.isclose(table.leaving, 2.0)).tolist():
        both = _step(first.first, interval)
        pair = _pair(both, _step(second.total, interval), _step(second.first, interval), beta)
        claims += [Candidate(x, interval + 1) for x in pair]
    return claims


def _step(sums: FloatArray, interval: int) -> FloatArray:
    later = sums[interval + 1] if interval + 1 < sums.shape[0] else np.zeros_like(sums[0])
    return np.asarray(sums[interval] - later)


def _pair(
    both: FloatArray, total: FloatArray, weighted: FloatArray, beta: FloatArray
) -> list[FloatArray]:
    """Two patients from x₁ + x₂, e₁ + e₂ and e₁x₁ + e₂x₂, e = exp(β·x): e₁e₂ is known too."""
    product = np.exp(float(beta @ both))
    root = float(total) ** 2 / 4.0 - product
    if root <= 1e-12 * product:
        return []
    high, low = float(total) / 2.0 + np.sqrt(root), float(total) / 2.0 - np.sqrt(root)
    one = (weighted - low * both) / (high - low)
    return [one, both - one]
