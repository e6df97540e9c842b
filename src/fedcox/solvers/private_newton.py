"""A fit on noised sums alone, with standard errors that know the noise.

The noise is small beside the sampling error of the study, and what it adds is known. Every sum
is asked for once:

1. a life table on public cells, from which time is cut into pieces and the start is taken;
2. means and spreads of the covariates, by which they are scaled;
3. squares and products of the covariates, by which their correlation is taken away, and the
   covariates of those who have the event: a score is then about as sure in every direction;
4. scores, each where the ones before point to. Each is a noisy Newton step to the optimum, and
   all of these steps together are the estimate;
5. after some of the scores the information, for the other steps and for standard errors.

The numbers in here were chosen on simulated patients; `python -m benchmarks.noise` judges them
on others (docs/mathematics.md says why each sum is right on average).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from fedcox.federation.queries.bounded_sums import (
    AbstractBoundedSum,
    NoisedEventMoments,
    NoisedInformationAt,
    NoisedLifeTable,
    NoisedMoments,
    NoisedProducts,
    NoisedScoreAt,
)
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.solver import Step, Watcher
from fedcox.survival.bounded_shares import (
    ACROSS,
    LEFT_OUT,
    ScoreMetric,
    information_bound,
    moment_bound,
    score_bound,
    square_of,
)
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.link import Log
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces

#: What each sum takes of what the study spends; the scores share what is left.
_TABLE, _MOMENTS, _PRODUCTS, _MEANS = 0.05, 0.05, 0.08, 0.02
#: Of the correlation so much is left, as a part of the usual variance: who is rare in every
#: direction would else weigh too much.
_LEFT = 0.04
#: The information takes so much, and more where its noise would be larger than this part of it.
_LEAST_INFORMATION, _MOST_INFORMATION, _UNSURE = 0.2, 0.5, 0.1
_SCORES = np.array([0.05, 0.05, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.1, 0.11, 0.12, 0.12])
#: The first scores are far from the optimum, and count for little in the end.
_FAR = 3
#: The information is asked for after so many.
_BEFORE = 6
#: How much an event may weigh, and until when a patient is watched, in standard deviations of
#: a usual patient's score.
_REACH = 40.0
#: The same of squares and products, in units of the usual square.
_CAP, _CAP_INFORMATION = 3.0, 5.0
#: A level of a category counts as no rarer than one of this spread: else its few patients would
#: weigh too much to be counted in full.
_RAREST = 0.35
#: Events a piece, and how many pieces.
_EVENTS, _FEWEST, _MOST = 80.0, 4, 24
#: Cells of the life table for each piece; those at the beginning are narrower.
_CELLS, _NARROWER = 8, 1.7
#: How far a Newton step is off, in parts of itself: by what the information may be off, and by
#: the curvature, with the square of the distance.
_OFF, _CURVED = 0.3, 0.1
#: No parameter moves by more in one step.
_LONGEST_STEP = 1.2
#: The information counts as no smaller in any direction.
_LEAST = 0.05
#: An answer needs: information beyond its own noise by this factor, less noise than so many
#: sampling errors, a last score no larger than so many times what is due.
_CLEAR, _NOISY, _LARGE = 2.0, 1.5, 4.0
#: What noise costs more where covariates are correlated, as they usually are.
_CORRELATED = 1.1
#: The order of the curve by which mean covariates of those with the event move in time.
_CURVE = 3
#: How often the last score may be too large by chance.
_CHANCE = 1e-4
#: How far fewer events than expected may be left out, in standard deviations.
_SURPRISE = 2.33
#: What is left of a score where there is next to no noise, as a mean square.
_RESIDUAL = 1e-3


@dataclass(frozen=True, eq=False)
class PublicScale:
    """What is known of the columns without asking: by it numbers lie between -1 and 1."""

    scaling: Scaling
    are_numbers: BoolArray
    categories: int

    @property
    def moment_bound(self) -> float:
        return moment_bound(int(np.count_nonzero(self.are_numbers)), self.categories)


class LeftOut(NamedTuple):
    """What weights and watch leave out: events, and how many the model expects there."""

    events: float
    expected: float
    noise: float  # standard deviation of each

    @property
    def surprise(self) -> float:
        """How far the events are from what is expected, in standard deviations."""
        spread = math.sqrt(max(self.expected, 0.0) + 2.0 * self.noise**2)
        return (self.events - self.expected) / spread


@dataclass(frozen=True, eq=False)
class PrivateSolution:
    """Where a private fit ended, on the setting's scale.

    `covariance` is that of β, noise included, `noise` the noise of the estimate in the metric,
    and `price` the factor by which it makes standard errors larger, about. `faults` say why
    nothing can be inferred; empty if it can.
    """

    setting: Setting
    metric: ScoreMetric
    alpha: FloatArray
    beta: FloatArray
    covariance: FloatArray
    noise: float
    price: float
    patients: float
    releases: int
    left_out: LeftOut
    faults: tuple[str, ...]


class _Table(NamedTuple):
    """What the life table gave: pieces, and in each about how many events and at risk."""

    pieces: Pieces
    events: FloatArray
    at_risk: FloatArray
    patients: float


@dataclass(frozen=True)
class PrivateNewton:
    """`patients` and `events` are about how many there are in all centers: public numbers.

    `multiplier` is the noise multiplier of the whole study. `parts` of the noise come from as
    many centers, where sums are under masks; else every center adds all of it. `centers` is how
    many take part. `pieces` is how many pieces time is cut into.
    """

    patients: int
    events: int
    columns: int
    multiplier: float
    centers: int = 1
    parts: int | None = None
    pieces: int | None = None

    @property
    def releases(self) -> int:
        return 5 + _SCORES.size

    @property
    def added(self) -> float:
        """How many times the noise of one release is in a sum, as a variance."""
        return self.centers / (self.parts or 1)

    @property
    def _most_added(self) -> float:
        return self.added if self.parts is None else 2.0

    @property
    def information(self) -> float:
        """The share of the information."""
        wanted = self._unsure(1.0) ** 2 / _UNSURE**2
        return float(np.clip(wanted, _LEAST_INFORMATION, _MOST_INFORMATION))

    @property
    def scores(self) -> FloatArray:
        """The share of each score."""
        return _SCORES * (1.0 - _TABLE - _MOMENTS - _PRODUCTS - _MEANS - self.information)

    @property
    def pieces_wanted(self) -> int:
        return self.pieces or usual_pieces(self.events)

    @property
    def expected_noise(self) -> float:
        """Of the estimate, in sampling errors: from public numbers alone.

        Under masks of however many centers, so that a price has one epsilon: more than half
        of them add their parts at least, so that noise is in a sum twice at most.
        """
        reach = _reach(self.pieces_wanted, self.columns, self.events)
        bound = score_bound(reach, reach)
        used = float(self.scores[_FAR:].sum())
        return _CORRELATED * bound * self.multiplier * math.sqrt(self._most_added / used)

    @property
    def expects_information(self) -> bool:
        """Whether the information is expected to be clear of its noise."""
        return self._unsure(self.information) <= _UNSURE * (1.0 + 1e-9)

    @property
    def expects_intervals(self) -> bool:
        """Whether there is an answer where covariates are not correlated, nor levels rare."""
        clear = _CLEAR * self._unsure(self.information) < 1.0
        return clear and self.expected_noise <= _NOISY

    def _unsure(self, share: float) -> float:
        """How far off the information is by noise, in parts of the usual information."""
        bound = information_bound(_information_cap(self.columns, self.events))
        noise = bound * self.multiplier * math.sqrt(self._most_added / share)
        return _spread_of(noise, self.columns)

    def solve(
        self,
        federation: Federation,
        cells: Pieces,
        scale: PublicScale,
        *,
        cut: bool = True,
        watch: Watcher = lambda step: None,
    ) -> PrivateSolution:
        """Ask for every sum, one round each. Pieces are cut from the cells, or are they."""
        begun = federation.names
        table = self._life_table(federation, cells, _alike(scale), cut=cut)
        scaling = self._scaling(federation, scale, table.patients)
        active = np.ones(table.pieces.intervals, dtype=np.bool_)
        setting = Setting(table.pieces, active, "include", Log(), scaling)
        metric = self._metric(federation, setting, table)
        ascent = _Ascent(setting, metric, table, self)
        for number, share in enumerate(self.scores):
            if number == _BEFORE:
                ascent.ask_information(federation)
            ascent.ask(federation, float(share), int(np.sum(share == self.scores)))
            watch(Step(math.nan, None))
        return ascent.solution(table.patients, whole=begun == federation.names)

    # One sum.

    def ask(
        self, federation: Federation, query: AbstractBoundedSum
    ) -> tuple[FloatArray, float]:
        """The noised sum, and the standard deviation of its noise."""
        release = query.release
        noise = math.sqrt(self.added) * release.noise_multiplier * release.sensitivity
        return federation.ask(query), noise

    def release(self, sensitivity: float, share: float, releases: int = 1) -> GaussianRelease:
        """Of so many sums, each with this share of what the study spends."""
        return GaussianRelease(
            self.multiplier / math.sqrt(share),
            sensitivity,
            releases=releases,
            fewest_centers=self.parts,
            whole=self.multiplier,
        )

    # What comes before the scores.

    def _life_table(
        self, federation: Federation, cells: Pieces, alike: int, *, cut: bool
    ) -> _Table:
        release = self.release(1.0, _TABLE, alike)
        counts, _ = self.ask(federation, NoisedLifeTable(cells, release))
        without, happened = counts.reshape(2, -1)
        patients = max(float(counts.sum()), 0.2 * self.patients)
        events = happened[1:]
        total = max(float(events.sum()), 0.2 * self.events, 1.0)
        kept = np.arange(cells.intervals + 1)
        if cut:
            kept = _cut(events, total, self.pieces_wanted)
        pieces = cells.joined(kept)
        own = np.add.reduceat(events, kept[:-1])
        own = np.maximum(own, 0.3 * total / pieces.intervals)
        own *= total / own.sum()  # no events are made up: the information is that of the total
        gone = without + happened
        reached = patients - np.cumsum(gone)[:-1]
        lived = (reached - 0.5 * gone[1:]) * cells.widths
        at_risk = np.add.reduceat(lived, kept[:-1]) / pieces.widths
        return _Table(pieces, own, np.maximum(at_risk, 1.5 * own), patients)

    def _scaling(self, federation: Federation, scale: PublicScale, patients: float) -> Scaling:
        numbers, public = scale.are_numbers, scale.scaling
        release = self.release(scale.moment_bound, _MOMENTS, _alike(scale))
        sums, noise = self.ask(federation, NoisedMoments(public, numbers, release))
        columns = numbers.size
        mean, unsure = sums[:columns] / patients, 2.0 * noise / patients
        mean = np.where(numbers, np.clip(mean, -1.0, 1.0), np.clip(mean, 0.005, 0.995))
        variance = mean * (1.0 - mean)
        variance[numbers] = sums[columns:] / patients - mean[numbers] ** 2
        variance = np.maximum(variance, np.where(numbers, max(4e-4, unsure), unsure))
        spread = np.sqrt(variance)
        spread = np.where(numbers, spread, np.maximum(spread, _RAREST))
        return Scaling(public.keep, public.mean + mean * public.spread, public.spread * spread)

    def _metric(self, federation: Federation, setting: Setting, table: _Table) -> ScoreMetric:
        """About standard deviations of the score; the information tells how far off it is."""
        whitening = self._whitening(federation, setting.scaling)
        cap = math.sqrt(_CAP * setting.columns)
        release = self.release(cap, _MEANS)
        sums, noise = self.ask(federation, NoisedEventMoments(setting, cap, release))
        means = sums.reshape(table.events.size, setting.columns) / table.events[:, None]
        means = _smooth(means @ whitening.T, table.events, noise * whitening)
        means = np.linalg.solve(whitening, means.T).T
        total = float(table.events.sum())
        return ScoreMetric(table.events, means, whitening / math.sqrt(total))

    def _whitening(self, federation: Federation, scaling: Scaling) -> FloatArray:
        """What takes most of the correlation of the columns away."""
        columns = int(scaling.keep.size)
        cap = _cap(columns)
        release = self.release(cap**2, _PRODUCTS)
        vector, noise = self.ask(federation, NoisedProducts(scaling, cap, release))
        square = square_of(vector)
        counted = max(float(square[0, 0]), 0.2 * self.patients)
        mean = square[0, 1:] / counted
        values, directions = np.linalg.eigh(square[1:, 1:] / counted - np.outer(mean, mean))
        unsure = _spread_of(noise / counted, columns)
        values = np.maximum(values, 0.0) + max(_LEFT, min(unsure, 1.0))
        return np.asarray((directions / np.sqrt(values)) @ directions.T)


class _Ascent:
    """The scores so far, and where they point to."""

    def __init__(
        self, setting: Setting, metric: ScoreMetric, table: _Table, solver: PrivateNewton
    ) -> None:
        self._setting, self._metric, self._solver = setting, metric, solver
        self._events = float(table.events.sum())
        self._reach = _reach(metric.events.size, setting.columns, self._events)
        alpha = np.log(table.events / table.at_risk)
        self._here = np.append(alpha, np.zeros(setting.columns))
        self._points: list[FloatArray] = []
        self._scores: list[FloatArray] = []
        self._noises: list[float] = []
        self._left_out: list[FloatArray] = []
        #: Of the information on the coefficients, in the metric.
        self._values, self._directions = np.ones(setting.columns), np.eye(setting.columns)
        self._clear = False
        #: Of the place where the next score is asked; then what is due of that score.
        self._noise_here = self._due = 0.0

    @property
    def _point(self) -> tuple[FloatArray, FloatArray]:
        pieces = self._setting.intervals
        return self._here[:pieces].copy(), self._here[pieces:].copy()

    def ask(self, federation: Federation, share: float, alike: int) -> None:
        """One more score, of so many with this share; then step to where all of them point."""
        reach = self._reach
        release = self._solver.release(score_bound(reach, reach), share, alike)
        query = NoisedScoreAt(self._setting, *self._point, self._metric, reach, reach, release)
        sums, noise = self._solver.ask(federation, query)
        self._left_out.append(sums[-2:] / (LEFT_OUT * reach))
        self._points.append(self._here)
        self._scores.append(sums[:-2].copy())
        self._due = noise**2 + self._noise_here**2 + _RESIDUAL
        self._noises.append(noise)
        self._move()

    def _move(self) -> None:
        """To where all scores point, if it is not too far."""
        target, weights = self._together()
        step = np.clip(target - self._here, -_LONGEST_STEP, _LONGEST_STEP)
        self._here = self._here + step
        self._noise_here = float(np.linalg.norm(weights * self._noises))

    def ask_information(self, federation: Federation) -> None:
        """Here, for the steps to come; those so far are taken anew."""
        columns, solver = self._setting.columns, self._solver
        cap = _information_cap(columns, self._events)
        release = solver.release(information_bound(cap), solver.information)
        query = NoisedInformationAt(
            self._setting, *self._point, self._metric, self._reach, cap, release
        )
        sums, noise = solver.ask(federation, query)
        across = sums[-self._metric.means.size :].reshape(self._metric.means.shape)
        across = self._moved(across / (ACROSS * cap), noise / (ACROSS * cap))
        square = square_of(sums[: -across.size]) - across.T @ across
        values, self._directions = np.linalg.eigh(square)
        unsure = _spread_of(noise, columns)
        self._clear = bool(values.min(initial=np.inf) > _CLEAR * unsure)
        self._values = np.maximum(values, max(_LEAST, min(unsure, 0.3)))
        self._move()

    def _moved(self, across: FloatArray, noise: float) -> FloatArray:
        """The means of the pieces are those of the model from here on: (pieces, columns).

        `across` is Σ g y of every piece. Returned is by how much the means move, as the
        covariance of the score in the pieces with that of the coefficients.
        """
        metric, events = self._metric, self._metric.events
        moved = _smooth(across / events[:, None], events, noise * np.eye(across.shape[1]))
        root = np.sqrt(events)[:, None] * moved
        for score in self._scores:
            score[events.size :] -= score[: events.size] @ root
        means = metric.means + np.linalg.solve(metric.whitening, moved.T).T
        self._metric = ScoreMetric(events, means, metric.whitening)
        return np.asarray(root)

    def _of_beta(self, score: FloatArray, power: float) -> FloatArray:
        """The score with a power of the information before the part of the coefficients."""
        pieces = self._setting.intervals
        turned = (self._values**power) * (self._directions.T @ score[pieces:])
        return np.append(score[:pieces], self._directions @ turned)

    def _together(self) -> tuple[FloatArray, FloatArray]:
        """The mean of all targets, and the weight of each: less from afar, and by its noise."""
        noises = np.array(self._noises)
        steps = [self._metric.step(self._of_beta(score, -1.0)) for score in self._scores]
        targets = np.array(self._points) + np.array(steps)
        together = targets[-1]
        for _ in range(5):
            ways = [self._metric.score_of(point - together) for point in self._points]
            ways = [self._of_beta(way, 0.5) for way in ways]
            distance = np.array([float(way @ way) for way in ways])
            curved = _CURVED * np.minimum(distance / self._events, 4.0)
            weights = 1.0 / (noises**2 + distance * (curved + _OFF**2) + 1e-12)
            weights /= weights.sum()
            together = weights @ targets
        return together, weights

    def solution(self, patients: float, *, whole: bool) -> PrivateSolution:
        together, weights = self._together()
        noises, pieces = np.array(self._noises), self._setting.intervals
        noise = float(np.linalg.norm(weights * noises))
        faults = []
        if not whole:
            faults.append("a center was lost on the way, and sums are over other patients")
        if not self._clear:
            faults.append("the information of some covariate is lost in its noise")
        if noise > _NOISY:
            faults.append("the noise is larger than the sampling error")
        if self._last > self._largest:
            faults.append("the last score is too far from zero")
        left_out = LeftOut(
            *(weights @ np.array(self._left_out)).tolist(),
            noise / (LEFT_OUT * self._reach),
        )
        if left_out.surprise < -_SURPRISE:
            faults.append("the model does not hold for patients whose covariates lie far out")
        return PrivateSolution(
            self._setting,
            self._metric,
            together[:pieces],
            together[pieces:],
            self._covariance(noise),
            noise,
            math.sqrt(1.0 + noise**2 * float(np.mean(1.0 / self._values))),
            patients,
            self._solver.releases,
            left_out,
            tuple(faults),
        )

    def _covariance(self, noise: float) -> FloatArray:
        """Of β: that of the sample, and of noise of this size in the metric."""
        values = 1.0 / self._values + noise**2 / self._values**2
        root = self._metric.whitening.T @ self._directions
        return np.asarray((root * values) @ root.T)

    @property
    def _last(self) -> float:
        """The mean square of the last score."""
        return float(self._scores[-1] @ self._scores[-1]) / self._scores[-1].size

    @property
    def _largest(self) -> float:
        """How large the last score may be at the optimum."""
        # Of few numbers the mean square may be large by chance alone.
        by_chance = 1.3 * float(chdtri(self._here.size, _CHANCE)) / self._here.size
        return max(_LARGE, by_chance) * self._due


def _smooth(means: FloatArray, events: FloatArray, noise: FloatArray) -> FloatArray:
    """Means of the pieces, (pieces, columns), as a curve through them.

    It is made of polynomials in the order of the events. What noise alone would make of each
    is taken off. `noise` times its transpose is the covariance of the noise of a sum.
    """
    total = float(events.sum())
    heights = (2.0 * np.cumsum(events) - events) / total - 1.0
    order = min(_CURVE, events.size - 1)
    root = np.sqrt(events / total)
    shapes, _ = np.linalg.qr(root[:, None] * np.vander(heights, order + 1, increasing=True))
    parts = shapes.T @ (root[:, None] * means)
    # A part is the sum of shape · root · sum of the piece / its events.
    spread = (shapes**2 / (events * total)[:, None]).sum(axis=0) * float((noise**2).sum())
    length = (parts**2).sum(axis=1)
    kept = np.where(length > 2.0 * spread, 1.0 - spread / np.maximum(length, 1e-300), 0.0)
    return np.asarray((shapes @ (kept[:, None] * parts)) / root[:, None])


def _alike(scale: PublicScale) -> int:
    """How many sums have the release of the life table: of one category the moments, too."""
    return 2 if scale.moment_bound == 1.0 and _MOMENTS == _TABLE else 1


def usual_pieces(events: float) -> int:
    """How many pieces time is cut into where nobody says: by the events that are expected."""
    return int(np.clip(events / _EVENTS, _FEWEST, _MOST))


def _cap(columns: int) -> float:
    """The longest [1, z] that counts in full."""
    return math.sqrt(_CAP * (columns + 1))


def _information_cap(columns: int, events: float) -> float:
    """The root of the largest trace of one patient's information."""
    return math.sqrt(_CAP_INFORMATION * (columns + 1) / events)


def _reach(pieces: int, columns: int, events: float) -> float:
    """How long an event's part of the score may be, and a compensator."""
    return math.sqrt((pieces + _REACH * columns) / events)


def _spread_of(noise: float, columns: int) -> float:
    """How far noise in every entry moves the eigenvalues of a symmetric matrix."""
    return 0.7 * noise * math.sqrt(columns)


def table_cells(horizon: float, unit: float | None, pieces: int) -> Pieces:
    """The public cells of the life table, from zero to the horizon, for so many pieces."""
    cells = _CELLS * pieces
    bounds = horizon * (np.arange(cells + 1) / cells) ** _NARROWER
    return Pieces.on_units(bounds, unit)


def _cut(events: FloatArray, total: float, wanted: int) -> IntArray:
    """Between which cells pieces begin: about as many events in each, as far as noise tells."""
    happened = np.maximum.accumulate(np.append(0.0, np.cumsum(events)))
    happened *= total / max(float(happened[-1]), 1.0)
    after = np.searchsorted(happened, total * np.arange(1, wanted) / wanted)
    return np.unique(np.concatenate([[0], np.maximum(after, 1), [events.size]]))
