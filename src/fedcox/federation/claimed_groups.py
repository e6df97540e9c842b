"""Whether the groups that a coordinator claims are those that the centers counted.

Where only sums are seen, a hospital's limits are compared with the patients of all centers, of
whom it can count none but its own. So it adds up the centers' life tables again, and takes the
groups from there on the grid it is asked about; and their covariates, whose means tell how many
patients share a level.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, get_args

import numpy as np

from fedcox.errors import InputError, RefusedError, SecureSumError, StudyError
from fedcox.federation.evidence import Evidence
from fedcox.federation.masked_numbers import decode, round_digest
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.interval_merging import leavers_within, merged_leavers
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces, TimeGrid

if TYPE_CHECKING:
    from fedcox.privacy.party import Party

_LEVEL = "level"
_MIXED = "pieces and intervals of grouped time are not joined with each other"


def check_groups(setting: Setting, party: Party, centers: Collection[str]) -> None:
    """Raise what is wrong with the claimed groups, for a sum over exactly these centers."""
    if setting.evidence is None or setting.leavers is None:
        raise _wrong("the patients claimed for it come without a life table to check them by")
    try:
        _check_joined(setting, setting.evidence.grid)
        sums, life = _totals(setting.evidence, party, centers)
    except (SecureSumError, StudyError) as error:
        raise _unchecked(error) from error
    keep = setting.scaling.keep
    if not _places(keep, sums.mean.size):
        raise _wrong("the columns are not those of the centers", _LEVEL)
    _check_sums(setting.scaling.mean, setting.present, sums.mean[keep], sums.present[keep])
    if not np.array_equal(_leavers(setting, setting.evidence.grid, life), setting.leavers):
        raise _wrong("the patients claimed for it are not those of the centers' life table")


def check_means(query: CovariateScatter, party: Party, centers: Collection[str]) -> None:
    """Raise what is wrong with the means and the number of patients, which judge levels."""
    if query.evidence is None:
        raise _wrong("the means claimed come without sums to check them by", _LEVEL)
    try:
        sums, _ = _totals(query.evidence, party, centers)
    except (SecureSumError, StudyError) as error:
        raise _unchecked(error) from error
    _check_sums(query.mean, query.present, sums.mean, sums.present)


def _check_sums(
    mean: FloatArray, present: FloatArray | None, true: FloatArray, values: FloatArray
) -> None:
    if present is None or not (_equal(mean, true) and np.array_equal(present, values)):
        raise _wrong("the means of the covariates are not those of the centers' sums", _LEVEL)


def _leavers(setting: Setting, own: AnyGrid, life: Counts) -> IntArray:
    """Who leaves in each fitted interval, by the centers' life table."""
    if isinstance(grid := setting.grid, Pieces) and isinstance(own, Pieces):
        kept = np.searchsorted(own.bounds, grid.bounds)
        if life.reached[kept[-1] :].any():
            raise _wrong("the pieces end before the centers' follow-up does")
        return leavers_within(setting.active, life.joined(own, kept, grid).leavers())
    if isinstance(grid, Pieces) or isinstance(own, Pieces):
        raise _wrong(_MIXED)
    parts = life.patients, life.reached, life.events
    counted = merged_leavers(*parts, _closing(grid, own), setting.reading)
    return leavers_within(setting.active, counted)


def _check_joined(setting: Setting, own: AnyGrid) -> None:
    """Raise where the setting's intervals are not those of the life table, joined."""
    grid, active = setting.grid, setting.active
    if active.shape != grid.edges.shape or active.dtype != np.bool_:
        raise _wrong("the fitted intervals are not some of the grid's")
    if setting.reading not in get_args(CensoredInterval):
        raise _wrong("there is no such reading of censored intervals")
    if isinstance(grid, Pieces) and isinstance(own, Pieces):
        same = grid.unit == own.unit and bool(np.isin(grid.bounds, own.bounds).all())
        if not (same and grid.bounds[0] == own.bounds[0] and grid.ties is None):
            raise _wrong("the pieces are not those of the life table, joined")
    elif isinstance(grid, TimeGrid) and isinstance(own, TimeGrid):
        _check_closing(grid, own)
    else:
        raise _wrong(_MIXED)


def _check_closing(grid: TimeGrid, own: TimeGrid) -> None:
    if own.width is None or not _same(own, TimeGrid.regular(own.width, own.horizon)):
        raise _wrong("the life table is not on intervals of one width")
    last = _closing(grid, own)
    if not last.any() or not _same(grid, own.merged(last)):
        raise _wrong("the intervals are not those of the life table, joined")


def _closing(grid: TimeGrid, own: TimeGrid) -> BoolArray:
    """Which intervals of the life table close one of the setting's."""
    ends = np.empty(0) if grid.ends is None else grid.ends
    return np.isin(np.arange(1, own.intervals + 1), ends)


def _totals(
    evidence: Evidence, party: Party, centers: Collection[str]
) -> tuple[ColumnSums, Counts]:
    """What the centers summed: their covariates, then their life tables."""
    covariates, query = CovariateSums(), IntervalCounts(evidence.grid, "include")
    if evidence.before != (covariates.digest,):
        raise _wrong("the life table was not summed together with the covariates")
    question = round_digest([*evidence.before, query.digest])
    total = party.checked_total(evidence.transcript, question, centers)
    # The vector ends with the last question, however long the replies to the first are.
    nobody = np.zeros(evidence.grid.intervals)
    size = query.pack(Counts(0, 0, 0, nobody, nobody, nobody)).size
    if total.size < size:
        raise _wrong("the sum is shorter than its life table")
    sums: ColumnSums = decode(covariates, total[: total.size - size])
    life: Counts = decode(query, total[total.size - size :])
    return sums, life


def _places(keep: IntArray, columns: int) -> bool:
    """Whether these are columns, each once."""
    places = keep.ndim == 1 and np.issubdtype(keep.dtype, np.integer)
    return places and bool(np.isin(keep, np.arange(columns)).all()) and _once(keep)


def _once(keep: IntArray) -> bool:
    return bool((np.diff(keep) > 0).all())


def _equal(claimed: FloatArray, found: FloatArray) -> bool:
    # Divided here and there by other libraries, perhaps.
    same = claimed.shape == found.shape
    return same and bool(np.allclose(claimed, found, rtol=1e-12, atol=0.0))


def _same(one: TimeGrid, other: TimeGrid) -> bool:
    if one.ends is None or other.ends is None:
        same_ends = one.ends is other.ends
    else:
        same_ends = np.array_equal(one.ends, other.ends)
    return one.width == other.width and same_ends and np.array_equal(one.edges, other.edges)


def _unchecked(error: InputError) -> RefusedError:
    reason = error.subject.removesuffix(".")
    return _wrong(f"the life table it is judged by cannot be checked: {reason}")


def _wrong(reason: str, rule: str = "interval") -> RefusedError:
    return RefusedError(
        "The sizes of groups cannot be believed.", [f"[groups] {rule}: {reason}."]
    )
