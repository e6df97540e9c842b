"""A fit on noised sums alone, with standard errors that know the noise.

The noise is small beside the sampling error of the study, and what it adds is known. Every sum
is asked for once:

1. a life table on public cells, from which time is cut into pieces and the start is taken;
2. means and spreads of the covariates, by which they are scaled;
3. squares and products of the covariates of those with the event: the information;
4. scores, each where the ones before point to. Each is a noisy Newton step to the optimum, and
   all of these steps together are the estimate.

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
    NoisedEventProducts,
    NoisedLifeTable,
    NoisedMoments,
    NoisedScoreAt,
)
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.solver import Step, Watcher
from fedcox.survival.bounded_shares import (
    BOUND,
    EventProducts,
    ScoreMetric,
    event_bound,
    moment_bound,
    score_bound,
)
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.link import Log
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces

#: What each sum takes of what the study spends; the scores share what is left.
_TABLE, _MOMENTS = 0.06, 0.06
#: Squares and products take so much, and more where their noise would be larger than this part
#: of the usual information.
_LEAST_PRODUCTS, _MOST_PRODUCTS, _UNSURE = 0.2, 0.6, 0.06
_SCORES = np.array([0.05, 0.05, 0.06, 0.08, 0.12, 0.16, 0.2, 0.28])
#: The first scores are far from the optimum, and count for little in the end.
_FAR = 2
#: How much an event may weigh, and until when a patient is watched, in standard deviations of
#: a usual patient's score.
_JUMP, _WATCH = 2.4, 3.0
#: The same of squares and products, in units of the usual square.
_CAP = 3.0
#: A level of a category counts as no rarer than one of this spread: else its few patients would
#: weigh too much to be counted in full.
_RAREST = 0.35
#: Events a piece, and how many pieces.
_EVENTS, _FEWEST, _MOST = 80.0, 4, 24
#: Cells of the life table; those at the beginning are narrower.
_CELLS, _NARROWER = 200, 1.7
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
#: Of a single piece there is no drift.
_LEAST_SLANT = 1e-6
#: How often the last score may be too large by chance.
_CHANCE = 1e-4
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


@dataclass(frozen=True, eq=False)
class PrivateSolution:
    """Where a private fit ended, on the setting's scale.

    `noise` is the noise of the estimate in sampling errors, the same in every direction, so
    that standard errors are √(1 + noise²) times what they would be without. `bound` is about
    how many patients weigh less than they would, and the standard deviation of that number.
    `faults` say why nothing can be inferred; empty if it can.
    """

    setting: Setting
    metric: ScoreMetric
    alpha: FloatArray
    beta: FloatArray
    noise: float
    patients: float
    releases: int
    bound: tuple[float, float]
    faults: tuple[str, ...]

    @property
    def price(self) -> float:
        """By what factor noise makes standard errors larger."""
        return math.hypot(1.0, self.noise)

    @property
    def covariance(self) -> FloatArray:
        """Of β, noise included."""
        whitening = self.metric.whitening
        return np.asarray(self.price**2 * whitening.T @ whitening)


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
        return 3 + _SCORES.size

    @property
    def added(self) -> float:
        """How many times the noise of one release is in a sum, as a variance."""
        return self.centers / (self.parts or 1)

    @property
    def _most_added(self) -> float:
        return self.added if self.parts in (None, self.centers) else 2.0

    @property
    def products(self) -> float:
        """The share of squares and products."""
        wanted = self._unsure(1.0) ** 2 / _UNSURE**2
        return float(np.clip(wanted, _LEAST_PRODUCTS, _MOST_PRODUCTS))

    @property
    def scores(self) -> FloatArray:
        """The share of each score."""
        return _SCORES * (1.0 - _TABLE - _MOMENTS - self.products)

    @property
    def pieces_wanted(self) -> int:
        return self.pieces or usual_pieces(self.events)

    @property
    def expected_noise(self) -> float:
        """Of the estimate, in sampling errors: from public numbers alone.

        Under masks of however many centers, so that a price has one epsilon: noise is in a sum
        once where all of them are needed, and else twice at most, since more than half are.
        """
        bound = score_bound(_JUMP, _WATCH) * math.sqrt(
            (self.pieces_wanted + self.columns) / self.events
        )
        used = float(self.scores[_FAR:].sum())
        return bound * self.multiplier * math.sqrt(self._most_added / used)

    @property
    def expects_information(self) -> bool:
        """Whether the information is expected to be clear of its noise."""
        return self._unsure(self.products) <= _UNSURE * (1.0 + 1e-9)

    @property
    def expects_intervals(self) -> bool:
        """Whether there is an answer where covariates are not correlated, nor levels rare."""
        clear = _CLEAR * self._unsure(self.products) < 1.0
        return clear and self.expected_noise <= _NOISY

    def _unsure(self, share: float) -> float:
        """How far off the information is by noise, in parts of the usual information."""
        bound = event_bound(_cap(self.columns))
        noise = bound * self.multiplier * math.sqrt(self._most_added / share) / self.events
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
        metric, clear = self._metric(federation, setting, table)
        ascent = _Ascent(setting, metric, table, self)
        for share in self.scores:
            ascent.ask(federation, float(share), int(np.sum(share == self.scores)))
            watch(Step(math.nan, None))
        return ascent.solution(table.patients, clear=clear, whole=begun == federation.names)

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

    def _metric(
        self, federation: Federation, setting: Setting, table: _Table
    ) -> tuple[ScoreMetric, bool]:
        """About the information of the model, and whether it is clear of its noise."""
        events, columns = table.events, setting.columns
        total = float(events.sum())
        heights = (2.0 * np.cumsum(events) - events) / total - 1.0
        heights = np.clip(heights - float(heights @ events) / total, -1.0, 1.0)
        cap = _cap(columns)
        release = self.release(event_bound(cap), self.products)
        vector, noise = self.ask(
            federation, NoisedEventProducts(setting, heights, cap, release)
        )
        products = EventProducts.of(vector, columns)
        counted = max(float(products.square[0, 0]), 0.1 * total)
        noise /= counted
        center = products.square[0, 1:] / counted
        square = products.square[1:, 1:] / counted - np.outer(center, center)
        slant = max(float(events @ heights**2) / total, _LEAST_SLANT)
        drift = products.by_height / counted / slant
        length = float(drift @ drift)
        # Noise alone makes a drift of this length; what is beyond it is real.
        real = max(0.0, 1.0 - columns * (noise / slant) ** 2 / max(length, 1e-300))
        drift = drift * math.sqrt(real)
        square = square - slant * np.outer(drift, drift)
        values, directions = np.linalg.eigh((square + square.T) / 2.0)
        unsure = _spread_of(noise, columns)
        clear = bool(values.min(initial=np.inf) > _CLEAR * unsure)
        values = np.maximum(values, max(_LEAST, min(unsure, 0.3)))
        whitening = (directions / np.sqrt(values * total)) @ directions.T
        return ScoreMetric(events, heights, center, drift, whitening), clear


class _Ascent:
    """The scores so far, and where they point to."""

    def __init__(
        self, setting: Setting, metric: ScoreMetric, table: _Table, solver: PrivateNewton
    ) -> None:
        self._setting, self._metric, self._solver = setting, metric, solver
        self._events = float(table.events.sum())
        usual = math.sqrt(metric.size / self._events)
        self._jump, self._watch = _JUMP * usual, _WATCH * usual
        alpha = np.log(table.events / table.at_risk)
        self._here = np.append(alpha, np.zeros(setting.columns))
        self._points: list[FloatArray] = []
        self._targets: list[FloatArray] = []
        self._noises: list[float] = []
        self._last, self._bound = 0.0, (0.0, 0.0)

    def ask(self, federation: Federation, share: float, alike: int) -> None:
        """One more score, of so many with this share; then step to where all of them point."""
        pieces = self._setting.intervals
        query = NoisedScoreAt(
            self._setting,
            self._here[:pieces].copy(),
            self._here[pieces:].copy(),
            self._metric,
            self._jump,
            self._watch,
            self._solver.release(score_bound(self._jump, self._watch), share, alike),
        )
        sums, noise = self._solver.ask(federation, query)
        score, one = sums[:-1], BOUND * self._jump
        self._bound = float(sums[-1]) / one, noise / one
        self._last = float(score @ score) / score.size
        self._points.append(self._here)
        self._targets.append(self._here + self._metric.step(score))
        self._noises.append(noise)
        target, _ = self._together()
        step = np.clip(target - self._here, -_LONGEST_STEP, _LONGEST_STEP)
        self._here = self._here + step

    def _together(self) -> tuple[FloatArray, FloatArray]:
        """The mean of all targets, and the weight of each: less from afar, and by its noise."""
        noises, targets = np.array(self._noises), np.array(self._targets)
        together = targets[-1]
        for _ in range(5):
            scores = [self._metric.score_of(point - together) for point in self._points]
            distance = np.array([float(score @ score) for score in scores])
            curved = _CURVED * np.minimum(distance / self._events, 4.0)
            weights = 1.0 / (noises**2 + distance * (curved + _OFF**2) + 1e-12)
            weights /= weights.sum()
            together = weights @ targets
        return together, weights

    def solution(self, patients: float, *, clear: bool, whole: bool) -> PrivateSolution:
        together, weights = self._together()
        noises = np.array(self._noises)
        noise = float(np.linalg.norm(weights * noises))
        due = noises[-1] ** 2 + 1.0 / float(np.sum(noises[:-1] ** -2.0)) + _RESIDUAL
        faults = []
        if not whole:
            faults.append("a center was lost on the way, and sums are over other patients")
        if not clear:
            faults.append("the information of some covariate is lost in its noise")
        if noise > _NOISY:
            faults.append("the noise is larger than the sampling error")
        # Of few numbers the mean square may be large by chance alone.
        by_chance = 1.3 * float(chdtri(together.size, _CHANCE)) / together.size
        if not self._last <= max(_LARGE, by_chance) * due:
            faults.append("the last score is too far from zero")
        pieces = self._setting.intervals
        return PrivateSolution(
            self._setting,
            self._metric,
            together[:pieces],
            together[pieces:],
            noise,
            patients,
            self._solver.releases,
            self._bound,
            tuple(faults),
        )


def _alike(scale: PublicScale) -> int:
    """How many sums have the release of the life table: of one category the moments, too."""
    return 2 if scale.moment_bound == 1.0 and _MOMENTS == _TABLE else 1


def usual_pieces(events: float) -> int:
    """How many pieces time is cut into where nobody says: by the events that are expected."""
    return int(np.clip(events / _EVENTS, _FEWEST, _MOST))


def _cap(columns: int) -> float:
    """The longest [1, z] that counts in full."""
    return math.sqrt(_CAP * (columns + 1))


def _spread_of(noise: float, columns: int) -> float:
    """How far noise in every entry moves the eigenvalues of a symmetric matrix."""
    return 0.7 * noise * math.sqrt(columns)


def table_cells(horizon: float, unit: float | None) -> Pieces:
    """The public cells of the life table, from zero to the horizon."""
    bounds = horizon * (np.arange(_CELLS + 1) / _CELLS) ** _NARROWER
    return Pieces.on_units(bounds, unit)


def _cut(events: FloatArray, total: float, wanted: int) -> IntArray:
    """Between which cells pieces begin: about as many events in each, as far as noise tells."""
    happened = np.maximum.accumulate(np.append(0.0, np.cumsum(events)))
    happened *= total / max(float(happened[-1]), 1.0)
    after = np.searchsorted(happened, total * np.arange(1, wanted) / wanted)
    return np.unique(np.concatenate([[0], np.maximum(after, 1), [events.size]]))
