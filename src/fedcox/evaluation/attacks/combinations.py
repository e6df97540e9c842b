"""Every combination of values that a patient can have, where columns have few of them."""

from __future__ import annotations

from itertools import product

import numpy as np

from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray

#: More combinations than this are more than a lattice reduction of minutes finds.
MOST_COMBINATIONS = 64
_MOST_VALUES = 12  # of one number
_SAME_VARIANCE = 0.01


def combinations_of(schema: CohortSchema, setting: Setting) -> FloatArray | None:
    """(combinations, kept columns) on the common scale; None where a column has many values.

    The study file names levels, and ranges of numbers, which are taken to be whole if there
    are few of them. A number without a range is 0 or 1 if its variance says so.
    """
    choices = [_choices(column) for column in schema.covariates]
    first = 0
    for place, column in enumerate(schema.covariates):
        if choices[place] is None and _is_two_levels(setting, first):
            choices[place] = np.array([[0.0], [1.0]])
        first += len(column.compared_levels) if isinstance(column, CategoryColumn) else 1
    known = [choice for choice in choices if choice is not None]
    sizes = [len(choice) for choice in known]
    if len(known) < len(choices) or np.prod(sizes, dtype=float) > MOST_COMBINATIONS:
        return None
    every = np.array([np.concatenate(values) for values in product(*known)])
    scaling = setting.scaling
    kept = np.unique(every[:, scaling.keep], axis=0)
    return np.asarray((kept - scaling.mean) / scaling.spread)


def _choices(column: CategoryColumn | NumberColumn) -> FloatArray | None:
    """The values of one column: of a category those of its encoded columns, row by row."""
    if isinstance(column, CategoryColumn):
        levels = len(column.compared_levels)
        return np.vstack([np.zeros(levels), np.eye(levels)])
    low, high = column.minimum, column.maximum
    if low is None or high is None or high - low >= _MOST_VALUES or low != int(low):
        return None
    return np.arange(low, high + 1.0)[:, None]


def _is_two_levels(setting: Setting, column: int) -> bool:
    """Whether an encoded column is zeros and ones, which its variance gives away."""
    (place,) = np.nonzero(setting.scaling.keep == column)
    if not place.size:
        return False
    mean, spread = setting.scaling.mean[place[0]], setting.scaling.spread[place[0]]
    variance = mean * (1.0 - mean)
    return bool(variance > 0 and abs(spread**2 - variance) < _SAME_VARIANCE * variance)
