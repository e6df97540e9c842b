"""All patients of a small center, solved for at once from its sums at many points."""

from __future__ import annotations

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.group_fit import fit_group
from fedcox.evaluation.attacks.looks import Source
from fedcox.evaluation.attacks.tail_peeling import everyone

#: Patients of a center that is still small.
SMALL_CENTER = 10


def invert_small_center(
    source: Source, rng: np.random.Generator, most: int = SMALL_CENTER
) -> list[Candidate]:
    """Everyone who is at risk in a fitted interval; the life table tells their outcomes.

    None of them where there are more than `most`, or where censored patients count one half.
    """
    setting = source.setting
    outcomes = everyone(source.table)
    if setting.reading == "half" or not 0 < outcomes.intervals.size <= most:
        return []
    depth = int(outcomes.intervals.max())
    covariates = fit_group(
        setting.link, source.looks, outcomes, np.arange(depth), whole=True, rng=rng
    )
    if covariates is None:
        return []
    return [
        Candidate(x, int(intervals), bool(event))
        for x, intervals, event in zip(
            covariates, outcomes.intervals, outcomes.event, strict=True
        )
    ]
