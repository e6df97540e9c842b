"""A fit on noised sums alone, with standard errors that know the noise.

The noise is small beside the sampling error of the study, and what it adds is known. Every sum
is asked for once:

1. a life table on public cells, from which time is cut into pieces and the start is taken; in
   the same round means and spreads of the covariates, by which they are scaled;
2. squares and products of the covariates, by which their correlation is taken away, and the
   covariates of those who have the event: a score is then about as sure in every direction;
3. scores, each where the ones before point to. Each is a noisy Newton step to the optimum, and
   all of these steps together are the estimate;
4. with one of the scores the information, for the steps to come and for standard errors.

The numbers in here were chosen on simulated patients; `python -m benchmarks.noise` judges them
on others (docs/mathematics.md says why each sum is right on average).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcox.errors import StudyError
from fedcox.federation.queries.bounded_sums import (
    AbstractBoundedSum,
    NoisedEventMoments,
    NoisedLifeTable,
    NoisedMoments,
    NoisedProducts,
)
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import GaussianRelease
from fedcox.solvers.private_ascent import (
    CLEAR,
    NOISY,
    PrivateAscent,
    PrivateSolution,
    information_cap,
    reach_of,
    smooth,
    spread_of,
)
from fedcox.solvers.solver import Step, Watcher
from fedcox.survival.bounded_rows import (
    moment_bound,
    square_of,
)
from fedcox.survival.bounded_shares import (
    ScoreMetric,
    information_bound,
    score_bound,
)
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.link import Log
from fedcox.survival.noised_table import SURE, NoisedTable, usual_pieces
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces

#: What each sum takes of what the study spends; the scores share what is left.
_TABLE, _MOMENTS, _PRODUCTS, _MEANS = 0.05, 0.05, 0.08, 0.02
#: Of the correlation so much is left, as a part of the usual variance: who is rare in every
#: direction would else weigh too much; and as much as noise makes of it, up to the variance.
_LEFT, _MOST_LEFT = 0.04, 1.0
#: The information takes so much, and more where its noise would be larger than this part of it.
_LEAST_INFORMATION, _MOST_INFORMATION, _UNSURE = 0.2, 0.5, 0.1
_SCORES = np.array([0.05, 0.05, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.1, 0.11, 0.12, 0.12])
#: The first scores are far from the optimum, and count for little in the end.
_FAR = 3
#: The information is asked for with the score that has so many before it.
_BEFORE = 8
#: The longest row that counts in full in squares and products, in units of the usual square.
_CAP = 3.0
#: A level of a category counts as no rarer than one of this spread: else its few patients would
#: weigh too much to be counted in full.
_RAREST = 0.35
#: What noise costs more where covariates are correlated, as they usually are, and its square by
#: this many over the number of events, where steps are made from few.
_CORRELATED, _FEW = 1.1, 20.0
#: By so large a part the number of patients may be off, beside what noise explains.
OFF_BY = 0.5


@dataclass(frozen=True, eq=False)
class PublicScale:
    """What is known of the columns without asking: by it numbers lie between -1 and 1.

    `categories` has for each column which category it is a level of, -1 for a number.
    """

    scaling: Scaling
    categories: IntArray

    @property
    def are_numbers(self) -> BoolArray:
        return np.asarray(self.categories < 0)

    @property
    def levels(self) -> FloatArray:
        """(categories, columns): 1 where a column is a level of a category."""
        numbers = np.unique(self.categories[self.categories >= 0])
        return np.asarray(self.categories == numbers[:, None], dtype=np.float64)

    @property
    def widths(self) -> FloatArray:
        """From one end of each column to the other."""
        return np.where(self.are_numbers, 2.0, 1.0) * self.scaling.spread

    @property
    def moment_bound(self) -> float:
        return moment_bound(int(np.count_nonzero(self.are_numbers)), len(self.levels))


class NoisedSum(NamedTuple):
    """The sum, and the standard deviation of the noise in each of its numbers."""

    total: FloatArray
    noise: float


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
        return self.added if self.parts in (None, self.centers) else 2.0

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

        Under masks of however many centers, so that a price has one epsilon: noise is in a sum
        once where all of them are needed, and else twice at most, since more than half are.
        """
        reach = reach_of(self.pieces_wanted, self.columns, self.events)
        bound = score_bound(reach)
        used = float(self.scores[_FAR:].sum())
        more = _CORRELATED * math.sqrt(
            (1.0 + self._correlation_left) * (1.0 + _FEW / self.events)
        )
        return more * bound * self.multiplier * math.sqrt(self._most_added / used)

    @property
    def _correlation_left(self) -> float:
        """What noise leaves of the correlation of columns, as a part of their variance."""
        noise = _cap(self.columns) ** 2 * self.multiplier
        noise *= math.sqrt(self._most_added / _PRODUCTS) / self.patients
        return min(spread_of(noise, self.columns), _MOST_LEFT)

    @property
    def expects_information(self) -> bool:
        """Whether the information is expected to be clear of its noise."""
        return self._unsure(self.information) <= _UNSURE * (1.0 + 1e-9)

    @property
    def expects_intervals(self) -> bool:
        """Whether there is an answer where covariates are not correlated, nor levels rare."""
        clear = CLEAR * self._unsure(self.information) < 1.0
        return clear and self.expected_noise <= NOISY

    def _unsure(self, share: float) -> float:
        """How far off the information is by noise, in parts of the usual information."""
        bound = information_bound(information_cap(self.columns, self.events))
        noise = bound * self.multiplier * math.sqrt(self._most_added / share)
        return spread_of(noise, self.columns)

    def solve(
        self,
        federation: Federation,
        cells: Pieces,
        scale: PublicScale,
        *,
        cut: bool = True,
        watch: Watcher = lambda step: None,
    ) -> PrivateSolution:
        """Ask for every sum, those that wait for no other in one round.

        Pieces are cut from the cells, or are they.
        """
        begun = federation.names
        table, scaling = self._described(federation, cells, scale, cut=cut)
        active = np.ones(table.pieces.intervals, dtype=np.bool_)
        setting = Setting(table.pieces, active, "include", Log(), scaling)
        metric, apart = self._metric(federation, setting, table)
        alpha = np.log(table.events / table.at_risk)
        ascent = PrivateAscent(setting, metric, alpha, scale, self)
        for number, share in enumerate(self.scores):
            alike = int(np.sum(share == self.scores))
            ascent.ask(federation, float(share), alike, information=number == _BEFORE)
            watch(Step(math.nan, None))
        reasons = {
            "a center was lost on the way, and sums are over other patients": (
                begun != federation.names
            ),
            "the number of events is lost in its noise": not table.clear,
            "a covariate is constant, or nearly the same as others, as far as noise tells": (
                not apart
            ),
        }
        faults = [reason for reason, holds in reasons.items() if holds]
        return ascent.solution(table.patients, faults)

    # One round.

    def ask(self, federation: Federation, *queries: AbstractBoundedSum) -> list[NoisedSum]:
        """Noised sums, each with the standard deviation of its noise."""
        sums = federation.ask_together(queries)
        noise = [
            query.release.noise_multiplier * query.release.sensitivity for query in queries
        ]
        return [
            NoisedSum(total, math.sqrt(self.added) * own)
            for total, own in zip(sums, noise, strict=True)
        ]

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

    def _described(
        self, federation: Federation, cells: Pieces, scale: PublicScale, *, cut: bool
    ) -> tuple[NoisedTable, Scaling]:
        alike = _alike(scale)
        of_table = self.release(1.0, _TABLE, alike)
        of_moments = self.release(scale.moment_bound, _MOMENTS, alike)
        counts, moments = self.ask(
            federation,
            NoisedLifeTable(cells, of_table),
            NoisedMoments(scale.scaling, scale.are_numbers, of_moments),
        )
        patients = float(counts.total.sum())
        self._check_patients(patients, counts.noise * math.sqrt(counts.total.size))
        wanted = self.pieces_wanted if cut else None
        table = NoisedTable.of(*counts, cells, wanted, self.patients)
        return table, self._scaling(scale, moments, table.patients)

    def _check_patients(self, counted: float, unsure: float) -> None:
        """End where the plan is far off, and noise alone does not explain it."""
        if abs(counted - self.patients) - SURE * unsure > OFF_BY * self.patients:
            about = f"about {max(counted, 0.0):,.0f} (give or take {2.0 * unsure:,.0f})"
            raise wrong_number(self.patients, about, spent=True)

    def _scaling(self, scale: PublicScale, moments: NoisedSum, patients: float) -> Scaling:
        numbers, public, (sums, noise) = scale.are_numbers, scale.scaling, moments
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
        self, federation: Federation, setting: Setting, table: NoisedTable
    ) -> tuple[ScoreMetric, bool]:
        """About standard deviations of the score, and whether no column is another.

        The information tells how far off it is.
        """
        columns = setting.columns
        cap, cap_of_events = _cap(columns), math.sqrt(_CAP * columns)
        of_products = self.release(cap**2, _PRODUCTS)
        of_events = self.release(cap_of_events, _MEANS)
        products, (sums, noise) = self.ask(
            federation,
            NoisedProducts(setting.scaling, cap, of_products),
            NoisedEventMoments(setting, cap_of_events, of_events),
        )
        whitening, apart = self._whitening(products, columns)
        means = sums.reshape(table.events.size, columns) / table.events[:, None]
        means = smooth(means @ whitening.T, table.events, noise * whitening)
        means = np.asarray(np.linalg.solve(whitening, means.T).T, dtype=np.float64)
        total = float(table.events.sum())
        return ScoreMetric(table.events, means, whitening / math.sqrt(total)), apart

    def _whitening(self, products: NoisedSum, columns: int) -> tuple[FloatArray, bool]:
        """What takes most of the correlation of the columns away, and whether none is another.

        The information alone does not tell: the means it is about are off by noise.
        """
        square = square_of(products.total)
        counted = max(float(square[0, 0]), 0.2 * self.patients)
        mean = square[0, 1:] / counted
        values, directions = np.linalg.eigh(square[1:, 1:] / counted - np.outer(mean, mean))
        unsure = spread_of(products.noise / counted, columns)
        # Of few columns the noise of one eigenvalue is more than that of its neighbours.
        apart = bool(values.min(initial=np.inf) > (1.0 + 2.0 / columns) * unsure)
        values = np.maximum(values, 0.0) + max(_LEFT, min(unsure, _MOST_LEFT))
        return np.asarray((directions / np.sqrt(values)) @ directions.T), apart


def wrong_number(planned: int, found: str, *, spent: bool = False) -> StudyError:
    """What to say where the number of patients that noise was chosen for is far off."""
    then = " What this study spent of the hospitals' budgets stays spent." if spent else ""
    return StudyError(
        "The study plans with another number of patients than there is.",
        [
            f"[privacy.noise] patients: found {found} in all centers together; the study names "
            f"{planned:,}, and noise is chosen for that. Name about the right number, as it is "
            f"known in public.{then}"
        ],
    )


def _alike(scale: PublicScale) -> int:
    """How many sums have the release of the life table: of one category the moments, too."""
    return 2 if scale.moment_bound == 1.0 and _MOMENTS == _TABLE else 1


def _cap(columns: int) -> float:
    """The longest [1, z] that counts in full."""
    return math.sqrt(_CAP * (columns + 1))


def fewest_of(centers: int, needed: int = 0) -> int:
    """The fewest of so many centers that a sum under masks has, which needs so many anyway."""
    return max(3, centers // 2 + 1, needed)
