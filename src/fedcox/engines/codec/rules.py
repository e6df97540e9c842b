"""What must agree within a question, a setting or a reply? Shapes, bounds and sizes.

Sizes are held to what a study can need: a batch of a billion draws would not be wrong, and
would fill a hospital's memory. That numbers are finite is not said here: all fields are.

A rule yields what is wrong. `columns` is how many columns the patients have, None where that is
not known. Rules for replies never tell a number of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcox.federation.batch import CellBatch, PatientBatch
from fedcox.federation.compression import RandomPlaces
from fedcox.federation.queries.bounded_sums import (
    AbstractSumAt,
    NoisedEventMoments,
    NoisedInformationAt,
    NoisedMoments,
    NoisedProducts,
)
from fedcox.federation.queries.compressed_gradient import AbstractCompressedGradient
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.interval_counts import Counts
from fedcox.federation.queries.local_steps import LocalEnds, LocalSteps, LocalTraining
from fedcox.federation.queries.outcome_counts import Outcomes
from fedcox.federation.queries.recorded_unit import WholeTimes
from fedcox.federation.queries.stratified_cox import StratifiedCoxAt
from fedcox.federation.queries.tile_counts import PatientsAndTiles
from fedcox.federation.queries.tile_moments import TileMoments, TileMomentSums
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.bounded_shares import ScoreMetric
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces, TimeGrid, ended_units

Rule = Callable[[Any, int | None], Iterator[str]]

#: Patients or cells that one step draws, and steps that one question asks for.
_MOST_DRAWN = 10_000_000
_MOST_STEPS = 1_000_000
_MOST_PATIENTS = 10**10
_MOST_ROUNDS = 10**9
_MOST_CENTERS = 10**6
#: The grid of noised sums has units between 2⁻⁵⁰⁰ and 2⁵⁰⁰.
_FARTHEST_BITS = 500
_MOST_INTERVALS = 1_000_000
#: Moments of more would be a message above the size that is sent.
_MOST_FEATURES = 16_000
_MOST_TILES = 10**13


def nothing(value: object, columns: int | None) -> Iterator[str]:
    """For what is right once its fields are."""
    return iter(())


def shaped(
    name: str, found: NDArray[Any] | None, shape: tuple[int, ...], reason: str
) -> Iterator[str]:
    """An array of another shape, for what it is needed."""
    if found is not None and found.shape != shape:
        yield f"{name} has the shape {found.shape}; {shape} is needed, {reason}"


def between(name: str, found: int | None, least: int, most: int) -> Iterator[str]:
    """A number out of its bounds."""
    if found is not None and not least <= found <= most:
        yield f"{name} must be from {least} to {most:,}"


def positive(name: str, found: float) -> Iterator[str]:
    """A number that is zero or less."""
    if not found > 0:
        yield f"{name} must be above zero"


def _not_negative(name: str, found: NDArray[Any] | None) -> Iterator[str]:
    if found is not None and (found < 0).any():
        yield f"{name} must not be below zero"


def _increasing(found: NDArray[Any]) -> bool:
    return bool((found[1:] > found[:-1]).all())


def of_grid(grid: TimeGrid, columns: int | None) -> Iterator[str]:
    """Patients are placed by width, and groups judged by edges: these must be the same."""
    if grid.width is None:
        if grid.ends is not None:
            yield "ends count intervals of one width, and there is no width"
        return
    ends = np.arange(1, grid.intervals + 1) if grid.ends is None else grid.ends
    yield from shaped("ends", ends, grid.edges.shape, "one for each edge")
    if ends.shape != grid.edges.shape:
        return
    if not (ends[0] >= 1 and ends[-1] <= _MOST_INTERVALS and _increasing(ends)):
        yield f"ends must increase, from above zero to {_MOST_INTERVALS:,}"
    elif not (grid.width > 0 and _closed_by(ends, grid.width, grid.edges)):
        yield "the edges are not those of intervals of this width"


def of_pieces(pieces: Pieces, columns: int | None) -> Iterator[str]:
    """Bounds are looked at when the pieces are made; what is left is that they are few."""
    yield from between("pieces", pieces.intervals, 1, _MOST_INTERVALS)
    if pieces.unit is not None:
        yield from positive("unit", pieces.unit)
    yield from _not_negative("ties", pieces.ties)


def _closed_by(ends: NDArray[np.int64], width: float, edges: NDArray[np.float64]) -> bool:
    """Whether edges close these intervals; the last may end early, at the horizon."""
    with np.errstate(over="ignore"):
        closing = width * ends.astype(np.float64)
        last_closes = ended_units(edges[-1], width) == ends[-1]
    return bool(last_closes) and np.array_equal(closing[:-1], edges[:-1])


def of_scaling(scaling: Scaling, columns: int | None) -> Iterator[str]:
    """Every column once and in order: where all are kept, none is looked for by its place."""
    keep = scaling.keep
    if keep.ndim != 1:
        yield "keep must be a list of columns"
        return
    yield from shaped("mean", scaling.mean, keep.shape, "one for each column kept")
    yield from shaped("spread", scaling.spread, keep.shape, "one for each column kept")
    if not _increasing(keep) or (keep < 0).any():
        yield "keep must name columns in their order, each once"
    elif columns is not None and keep.size and keep[-1] >= columns:
        yield f"keep names column {keep[-1] + 1}, and patients have {columns}"
    if not (scaling.spread > 0).all():
        yield "spread must be above zero"


def of_setting(setting: Setting, columns: int | None) -> Iterator[str]:
    """All is about the grid's intervals, the fitted ones, or the columns kept."""
    edges = setting.grid.edges
    yield from shaped("active", setting.active, edges.shape, "one for each interval")
    if setting.basis is not None and (
        setting.basis.ndim != 2 or len(setting.basis) != setting.intervals
    ):
        yield "basis must have a row for each fitted interval"


def of_patient_batch(batch: PatientBatch, columns: int | None) -> Iterator[str]:
    """Every center draws all of it."""
    yield from _drawn(batch.seed, batch.step, batch.population)
    yield from between("size", batch.size, 1, _MOST_DRAWN)


def of_cell_batch(batch: CellBatch, columns: int | None) -> Iterator[str]:
    """Every center draws all candidates."""
    yield from _drawn(batch.seed, batch.step, batch.population)
    yield from between("candidates", batch.candidates, 1, _MOST_DRAWN)
    if batch.intervals < 1:
        yield "intervals must be at least one"


def _drawn(seed: int, step: int, population: int) -> Iterator[str]:
    if seed < 0:
        yield "seed must not be below zero"
    yield from between("step", step, 0, _MOST_ROUNDS)
    yield from between("population", population, 1, _MOST_PATIENTS)


def of_places(places: RandomPlaces, columns: int | None) -> Iterator[str]:
    """Places are drawn by a seed."""
    if places.seed < 0:
        yield "seed must not be below zero"


def of_release(release: GaussianRelease, columns: int | None) -> Iterator[str]:
    """The units of its grid are numbers that a computer has."""
    yield from between("releases", release.releases, 1, _MOST_ROUNDS)
    yield from between("fewest_centers", release.fewest_centers, 1, _MOST_CENTERS)
    unit = release.own_multiplier * release.sensitivity
    if not 2.0**-_FARTHEST_BITS <= unit <= 2.0**_FARTHEST_BITS:
        yield "noise multiplier and sensitivity are too small or too large to compute with"


def of_training(training: LocalTraining, columns: int | None) -> Iterator[str]:
    """Penalties by column and steps by parameter, in numbers that end some day."""
    intervals, kept = training.setting.baseline_size, training.setting.columns
    yield from shaped("ridge", training.ridge, (kept,), "one for each column kept")
    yield from _not_negative("ridge", training.ridge)
    yield from shaped("scale", training.scale, (intervals + kept,), "one for each parameter")
    yield from between("steps", training.steps, 1, _MOST_STEPS)
    yield from between("cells", training.cells, 1, _MOST_DRAWN)
    if training.seed < 0:
        yield "seed must not be below zero"


def _point(
    setting: Setting, alpha: NDArray[np.float64], beta: NDArray[np.float64]
) -> Iterator[str]:
    size = (setting.baseline_size,)
    yield from shaped("alpha", alpha, size, "one for each number of the baseline")
    yield from shaped("beta", beta, (setting.columns,), "one for each column kept")


def of_derivatives_at(query: DerivativesAt, columns: int | None) -> Iterator[str]:
    """The point is one of the setting's, and so is a batch of cells."""
    yield from _point(query.agreed, query.alpha, query.beta)
    if isinstance(query.batch, CellBatch):
        if query.detail is not Detail.GRADIENT:
            yield "a batch of cells has a gradient and no curvature"
        if query.batch.intervals != query.agreed.intervals:
            yield "the batch's intervals must be those that are fitted"
        if query.agreed.basis is not None:
            yield "a batch of cells has no spline for its baseline"


def of_metric(metric: ScoreMetric, columns: int | None) -> Iterator[str]:
    """Events and means of each piece, and a square of the columns kept."""
    pieces, kept = metric.events.shape, metric.whitening.shape[:1]
    if not (len(pieces) == len(kept) == 1 and pieces[0]):
        yield "events must be a list of numbers, and whitening a square"
        return
    yield from shaped("means", metric.means, pieces + kept, "one row for each piece")
    yield from shaped("whitening", metric.whitening, 2 * kept, "a square of columns kept")
    if not (metric.events > 0).all():
        yield "events must be above zero"


def of_moments(query: NoisedMoments, columns: int | None) -> Iterator[str]:
    """Every column kept is a number or a level."""
    kept = query.scaling.keep.shape
    yield from shaped("are_numbers", query.are_numbers, kept, "one for each column kept")


def of_capped(query: NoisedProducts | NoisedEventMoments, columns: int | None) -> Iterator[str]:
    """The cap bounds."""
    yield from positive("cap", query.cap)


def of_score(query: AbstractSumAt, columns: int | None) -> Iterator[str]:
    """The point and the metric are of one setting; the reach bounds."""
    yield from _point(query.agreed, query.alpha, query.beta)
    shape = query.alpha.shape + query.beta.shape
    yield from shaped("means", query.metric.means, shape, "one row for each piece")
    yield from positive("reach", query.reach)


def of_information(query: NoisedInformationAt, columns: int | None) -> Iterator[str]:
    """As of a score, and the cap bounds."""
    yield from of_score(query, columns)
    yield from positive("cap", query.cap)


def of_compressed(query: AbstractCompressedGradient, columns: int | None) -> Iterator[str]:
    """Steps are counted from one, and there is something to compress."""
    yield from between("step", query.step, 1, _MOST_ROUNDS)
    if query.asked.detail is not Detail.GRADIENT:
        yield "only a gradient can be compressed"
    if not query.size:
        yield "there are no parameters"


def of_cox(query: StratifiedCoxAt, columns: int | None) -> Iterator[str]:
    """One coefficient for each column kept."""
    yield from shaped("beta", query.beta, (query.agreed.columns,), "one for each column kept")


def of_local_steps(query: LocalSteps, columns: int | None) -> Iterator[str]:
    """The point is one of the setting's that centers train on."""
    yield from _point(query.training.setting, query.alpha, query.beta)
    yield from positive("learning_rate", query.learning_rate)
    yield from between("round", query.round, 0, _MOST_ROUNDS)


def of_scatter(query: CovariateScatter, columns: int | None) -> Iterator[str]:
    """Means are of all columns, not of those kept."""
    if query.mean.ndim != 1:
        yield "mean must be a list of numbers"
    elif columns is not None:
        yield from shaped("mean", query.mean, (columns,), "one for each column of the patients")


def of_event_times(query: EventTimes, columns: int | None) -> Iterator[str]:
    """The horizon may be infinite."""
    yield from positive("horizon", query.horizon)


def of_column_sums(sums: ColumnSums, columns: int | None) -> Iterator[str]:
    """No column has more values than there are patients."""
    if not 0 <= sums.patients <= _MOST_PATIENTS or not _counts(sums.present, sums.patients):
        yield "patients and present are no counts of the same patients"


def of_counts(counts: Counts, columns: int | None) -> Iterator[str]:
    """Nobody is at risk or has an event who does not reach an interval, and so on."""
    most = counts.patients, counts.passed, counts.late_events
    sane = 0 <= most[2] <= most[1] <= most[0] <= _MOST_PATIENTS
    arrays = counts.reached, counts.at_risk, counts.events
    if not sane or len({array.shape for array in arrays}) > 1:
        yield "patients, passed and late_events are no counts of the same patients"
    elif not _counts(counts.reached, counts.patients):
        yield "reached are no counts among the patients"
    elif not all(_counts(array, counts.reached) for array in arrays[1:]):
        yield "at_risk and events are no counts among those who reach an interval"


def of_whole_times(times: WholeTimes, columns: int | None) -> Iterator[str]:
    """No more whole times than times."""
    sane = 0 <= times.events <= _MOST_PATIENTS
    alike = times.whole.shape == times.even.shape
    if not (sane and alike and _counts(times.whole, times.events)) or not _counts(
        times.even, times.whole
    ):
        yield "events, whole and even are no counts of the same times"


def of_outcomes(outcomes: Outcomes, columns: int | None) -> Iterator[str]:
    """No more events than patients."""
    if not 0 <= outcomes.events <= outcomes.patients <= _MOST_PATIENTS:
        yield "patients and events are no counts of the same patients"


def of_local_ends(ends: LocalEnds, columns: int | None) -> Iterator[str]:
    """Sums are divided by the patients."""
    if not 0 <= ends.patients <= _MOST_PATIENTS:
        yield "patients is no count"


def of_tile_moments(query: TileMoments, columns: int | None) -> Iterator[str]:
    """A center has to hold a square of them."""
    yield from between("features", query.features, 1, _MOST_FEATURES)


def of_patients_and_tiles(
    sums: PatientsAndTiles | TileMomentSums, columns: int | None
) -> Iterator[str]:
    """Every patient has a tile, and sums are divided by their number."""
    if not 0 <= sums.patients <= min(sums.tiles, _MOST_PATIENTS) or sums.tiles > _MOST_TILES:
        yield "patients and tiles are no counts of the same patients"


def _counts(found: NDArray[np.float64], among: int | NDArray[np.float64]) -> bool:
    return bool(((found >= 0) & (found <= among)).all())
