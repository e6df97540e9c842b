"""A cheating coordinator looks for patients who are alone in a combination of levels.

With one α for all intervals and effects of levels alone, a patient's cell costs what the
combination says. So a gradient is a sum over combinations, each with a weight that is known,
and as many gradients as there are combinations give the sum over the patients of each.
Parameters are ordinary, groups are large, and every level is shared by many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.observer import Observer
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import AbstractLink

_MOST_COLUMNS = 4
_LOWEST_ALPHA, _HIGHEST_ALPHA = -2.5, 0.4
_LARGEST_EFFECT = 1.5  # of a level, as given
_GRADIENTS = 60
_SAME_VARIANCE = 0.01


def probe_combinations(
    observer: Observer, setting: Setting, rng: np.random.Generator
) -> Iterator[Candidate]:
    """Patients who are the only one with their levels: one round for every gradient."""
    columns = level_columns(setting)
    if not columns.size:
        return
    levels = np.array(list(product((0.0, 1.0), repeat=columns.size)))
    spread = setting.scaling.spread[columns]
    scaled = (levels - setting.scaling.mean[columns]) / spread
    weights, replies = [], []
    for _ in range(_GRADIENTS):
        alpha = rng.uniform(_LOWEST_ALPHA, _HIGHEST_ALPHA)
        beta = np.zeros(setting.columns)
        beta[columns] = rng.uniform(-_LARGEST_EFFECT, _LARGEST_EFFECT, columns.size) * spread
        at = np.full(setting.intervals, alpha)
        replies.append(
            observer.replies(DerivativesAt(setting, at, beta, Detail.GRADIENT)),
        )
        weights.append(_weights(setting.link, np.exp(alpha + scaled @ beta[columns])))
    for name in replies[0]:
        own = [reply[name] for reply in replies]
        yield from _alone(np.array(weights), own, len(levels), setting.intervals)


def level_columns(setting: Setting) -> IntArray:
    """Columns of zeros and ones, which their variance gives away; the first few of them."""
    mean, spread = setting.scaling.mean, setting.scaling.spread
    variance = mean * (1.0 - mean)
    two_levels = (variance > 0) & (np.abs(spread**2 - variance) < _SAME_VARIANCE * variance)
    return np.flatnonzero(two_levels)[:_MOST_COLUMNS]


def _weights(link: AbstractLink, v: FloatArray) -> FloatArray:
    """What a patient of each combination adds to a slope, without the event and with it."""
    without = link.at_risk(v).slope
    if link.canonical:
        return np.append(without, 1.0)  # an event takes one away, whatever the combination
    return np.concatenate([without, link.event(v).slope])


def _alone(
    weights: FloatArray, replies: list[Derivatives], combinations: int, intervals: int
) -> Iterator[Candidate]:
    slopes = np.array([[reply.alpha.sum(), *reply.beta] for reply in replies])
    found = np.linalg.lstsq(weights, slopes, rcond=None)[0]
    sums = found[:combinations]
    if len(found) == 2 * combinations:
        sums = sums + found[combinations:]
    for cells, *covariates in sums:
        # One patient is at risk in no more intervals than there are.
        if 0.5 < cells < intervals + 0.5:
            yield Candidate(np.array(covariates) / cells)
