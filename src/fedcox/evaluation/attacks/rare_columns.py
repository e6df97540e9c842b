"""A column that has one value for all but one patient gives that patient away.

The sums of products that set the common scale hold Σ (d − v)·x for every pair of columns, v
being the value of d that nearly everybody has. If one patient differs, that is a multiple of
this patient's covariates, and Σ (d − v) tells of which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.observer import Exchange
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray

#: What nearly everybody may have: not treated, no, the first of two codes, the second.
_USUAL = (0.0, 1.0, 2.0)


def read_rare_columns(exchanges: Sequence[Exchange], setting: Setting) -> Iterator[Candidate]:
    """One claim for each column and usual value, of every source."""
    sums: Mapping[str, ColumnSums] = _replies(exchanges, CovariateSums)
    for exchange in exchanges:
        if isinstance(exchange.query, CovariateScatter):
            for name, scatter in exchange.replies.items():
                yield from _claims(sums[name], scatter, exchange.query.mean, setting)


def _replies(exchanges: Sequence[Exchange], kind: type) -> Mapping[str, Any]:
    found = [each.replies for each in exchanges if isinstance(each.query, kind)]
    return found[-1] if found else {}


def _claims(
    sums: ColumnSums, scatter: FloatArray, mean: FloatArray, setting: Setting
) -> Iterator[Candidate]:
    scaling = setting.scaling
    for usual in _USUAL:
        off = sums.total - sums.patients * usual  # Σ (d − v), of every column
        products = scatter + np.outer(sums.total - sums.patients * mean, mean)
        products += np.outer(mean - usual, sums.total)
        for column in np.flatnonzero(np.abs(off) > 1e-9):
            patient = products[column] / off[column]
            yield Candidate((patient[scaling.keep] - scaling.mean) / scaling.spread)
