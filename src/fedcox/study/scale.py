"""The covariates' common scale, and which columns a model can tell apart, from joint sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.queries.covariate_sums import ColumnSums
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.information import aliased_columns, constant_columns
from fedcox.survival.scaling import Scaling


@dataclass(frozen=True, eq=False)
class CommonScale:
    """The scale that solvers work on, and what was left out of it."""

    scaling: Scaling
    mean: FloatArray  # (columns,)
    spread: FloatArray  # (columns,)
    constant: BoolArray  # (columns,)
    aliased: BoolArray  # (columns,)
    correlation: FloatArray  # (kept columns, kept columns)


def check_patients(sums: ColumnSums) -> None:
    """Nothing can be compared among fewer than two patients."""
    if sums.patients < 2:
        raise CohortError(
            f"All centers together have {sums.patients} patient(s).",
            ["A comparison needs at least two; check the files and the study's rules."],
        )


def common_scale(
    mean: FloatArray,
    scatter: FloatArray,
    patients: int,
    *,
    columns: Sequence[str],
    penalised: bool,
) -> CommonScale:
    """The scale of all centers; `columns` are the names that a message shows."""
    _check_sizes(scatter, columns)
    constant = constant_columns(scatter, mean, patients)
    # A penalty makes every combination of columns estimable; without one the later ones go.
    aliased = np.zeros_like(constant) if penalised else aliased_columns(scatter, ~constant)
    spread = np.sqrt(np.diag(scatter) / max(patients, 1))
    keep = np.flatnonzero(~constant & ~aliased)
    correlation = scatter[np.ix_(keep, keep)] / np.outer(spread[keep], spread[keep])
    correlation /= max(patients, 1)
    scaling = Scaling(keep, mean[keep], spread[keep])
    return CommonScale(scaling, mean, spread, constant, aliased, correlation)


def _check_sizes(scatter: FloatArray, columns: Sequence[str]) -> None:
    """A number of 1e300 stands for "unknown" somewhere; its square is infinite."""
    too_large = np.flatnonzero(~np.isfinite(np.diag(scatter)))
    if too_large.size:
        raise CohortError(
            "Some covariates are too large to compute with.",
            [
                f"Column '{columns[column]}' has values beyond 1e150 in some center: a "
                "code for a missing value? Leave such cells empty."
                for column in too_large.tolist()
            ],
        )
