"""A cheating coordinator takes large batches apart, since it knows who is in which.

Whoever deals out the patients' numbers knows how often each is in a batch. At one point every
batch's slopes are then a known sum of the patients' own, and as many batches as patients give
each patient's own slopes. The batches themselves may be as large as a hospital likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.forged_grid import coarse_setting
from fedcox.evaluation.attacks.observer import Observer
from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail

#: Draws for each patient of the study, so that a batch holds most of them.
_DRAWS = 3
_SPARE = 5  # batches more than there are patients
_ALPHA = -1.0


def take_batches_apart(
    observer: Observer, setting: Setting, sizes: Mapping[str, int], most: int
) -> Iterator[Candidate]:
    """Every patient of the sources that are small enough for `most` batches.

    Asked on a grid of one interval, which no limit on groups forbids.
    """
    population = sum(sizes.values())
    ranges = _ranges(sizes)
    rounds = min(most, max(sizes.values()) + _SPARE)
    small = within_reach(sizes, most)
    if not small:
        return
    whole = coarse_setting(setting, 1)
    counts = np.zeros((rounds, population))
    slopes: dict[str, list[FloatArray]] = {name: [] for name in small}
    for step in range(rounds):
        batch = PatientBatch(0, step, _DRAWS * population, population)
        counts[step] = np.bincount(batch.numbers(), minlength=population)
        query = DerivativesAt(
            whole, np.array([_ALPHA]), np.zeros(setting.columns), Detail.GRADIENT, batch
        )
        replies = observer.replies(query)
        for name in small:
            slopes[name].append(np.append(replies[name].beta, replies[name].alpha))
    for name in small:
        own = np.linalg.lstsq(counts[:, ranges[name]], np.array(slopes[name]), rcond=None)[0]
        for beta, alpha in zip(own[:, :-1], own[:, -1], strict=True):
            yield Candidate(beta / alpha)


def within_reach(sizes: Mapping[str, int], most: int) -> list[str]:
    """The sources that are small enough for `most` batches."""
    return [name for name, size in sizes.items() if size + _SPARE <= most]


def _ranges(sizes: Mapping[str, int]) -> dict[str, slice]:
    """The patients' numbers of every source."""
    ends = np.cumsum(list(sizes.values())).tolist()
    return {
        name: slice(end - size, end)
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }
