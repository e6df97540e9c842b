"""How small an effect can a study tell? The power of one coefficient, from public numbers.

The standard error of a log hazard ratio is about 1 / √(events × variance of the covariate)
(Schoenfeld 1983; Hsieh and Lavori 2000), and noise makes it `price` times as large. This takes
the covariate to be uncorrelated with the others; correlation R² with them makes the standard
error 1 / √(1 − R²) times as large.
"""

from __future__ import annotations

import math

from scipy.stats import norm

#: What a study is usually planned for: a chance to tell the effect, and a two-sided level.
POWER, LEVEL = 0.8, 0.05


def smallest_log_ratio(
    events: float,
    variance: float,
    *,
    price: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """The log hazard ratio that a test at this two-sided level finds with this power."""
    return _quantiles(power, level) * price / math.sqrt(events * variance)


def events_needed(
    log_ratio: float,
    variance: float,
    *,
    price: float = 1.0,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """How many events it takes to find a log hazard ratio."""
    return (_quantiles(power, level) * price / log_ratio) ** 2 / variance


def _quantiles(power: float, level: float) -> float:
    return float(norm.isf(level / 2.0) + norm.isf(1.0 - power))
