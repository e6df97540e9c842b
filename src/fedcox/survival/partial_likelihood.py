"""Cox's partial likelihood of one stratum: loss, gradient and Hessian, with tied event times.

The default fit is not this but `piece_sums.py`, whose sums add up over centers; this is for one
center, each center as a stratum, and WebDISCO (`study/cox.py`).

Patients stand in decreasing order of time, so everyone at risk at an event time is a prefix.
With w_i = exp(β·x_i) every event time s contributes terms log φ, where φ is the risk of the
patients at s or later, less a part of those who have the event at s: none of it (Breslow), or
0/d, 1/d, … (d−1)/d of it in turn (Efron). Equations in `docs/mathematics.md`, section 17.

Risks are divided by the largest, so nothing overflows, but a φ far below it would be lost:
after a patient of extreme risk has left, everyone else would count as nobody. Event times whose
φ lie too far apart are therefore taken in stretches, each with a largest risk of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray, NumberedPatients
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    weighted_square,
    zero_derivatives,
)
from fedcox.survival.scaling import Scaling

Ties = Literal["breslow", "efron"]

#: Largest predictors of risk sets that are summed together lie no further apart: exp(300) has a
#: finite square. A patient this far below the largest of a risk set adds nothing to its φ.
_FARTHEST = 300.0


class EfronTerms(NamedTuple):
    """One term for each event, with a falling `share` of the risk of those tied with it."""

    time: IntArray  # (events,) which event time
    share: FloatArray  # (events,) 1, (d − 1)/d, … 1/d
    runs: IntArray  # (2 · event times,) patients who join before, and those with the event


class RiskSets(NamedTuple):  # made for every batch: a tuple costs least
    """The event times of ordered patients, latest first.

    The patients with the event at each time stand from `first` to `end`; everyone at risk then
    is before `end`. `efron` is None where each event time has one term, as without ties.
    """

    events: IntArray  # (events,) places of the patients with an event
    starts: IntArray  # (event times,) the first of each time among them
    first: IntArray  # (event times,)
    deaths: IntArray  # (event times,)
    end: IntArray  # (event times,)
    joining: IntArray  # (event times,) how many patients join the risk set
    efron: EfronTerms | None

    @classmethod
    def of(cls, event: BoolArray, rank: IntArray, ties: Ties) -> RiskSets:
        """From patients in order of `rank`, those with an event last in each rank."""
        events = event.nonzero()[0]
        ranks = rank[events]
        new = np.ones(events.size, dtype=np.bool_)
        np.not_equal(ranks[1:], ranks[:-1], out=new[1:])
        starts = new.nonzero()[0]
        deaths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=deaths[:-1])
        deaths[-1] = events.size - starts[-1]
        first = events[starts]
        end = first + deaths
        joining = end.copy()
        joining[1:] -= end[:-1]
        efron = None
        if ties == "efron" and starts.size < events.size:
            time = np.arange(starts.size).repeat(deaths)
            share = 1.0 - (np.arange(events.size) - starts[time]) / deaths[time]
            runs = np.empty(2 * starts.size, dtype=np.int64)
            np.subtract(joining, deaths, out=runs[0::2])
            runs[1::2] = deaths
            efron = EfronTerms(time, share, runs)
        return cls(events, starts, first, deaths, end, joining, efron)


class _Weights(NamedTuple):
    """What one look at the risks gives."""

    risk: FloatArray  # (patients,) exp(β·x), divided by its largest
    terms: FloatArray  # φ: one for each event time, or one for each event
    log_terms: float  # Σ log φ over the events
    of_patient: FloatArray  # (patients,) expected number of events


@dataclass(frozen=True, eq=False)
class PartialLikelihood:
    """One stratum, ready to be asked for derivatives at any β.

    covariates  (patients, columns) scaled, latest time first; patients who are censored before
                the first event time are left out, since they are in no risk set
    event       (patients,); at equal times those with the event stand last
    rank        (patients,) of the time, increasing as time decreases
    number      (patients,) study numbers
    """

    covariates: FloatArray
    event: BoolArray
    rank: IntArray
    number: IntArray
    ties: Ties

    @classmethod
    def of(cls, cohort: Cohort, scaling: Scaling, ties: Ties) -> PartialLikelihood:
        """Order a cohort and scale its covariates."""
        order = np.lexsort((cohort.event, -cohort.time))
        event = cohort.event[order]
        order = order[: _last_event(event)]
        time = cohort.time[order]
        rank = np.cumsum(np.diff(time, prepend=time[:1]) != 0)
        covariates = np.empty((order.size, scaling.keep.size))
        scaling.apply(cohort.covariates[order], out=covariates, complete=cohort.complete)
        return cls(covariates, event[: order.size], rank, cohort.number[order], ties)

    @property
    def columns(self) -> int:
        return int(self.covariates.shape[1])

    @cached_property
    def risk_sets(self) -> RiskSets:
        return RiskSets.of(self.event, self.rank, self.ties)

    @cached_property
    def _numbered(self) -> NumberedPatients:
        return NumberedPatients(self.number)

    def draw(self, numbers: IntArray) -> PartialLikelihood:
        """The patients with these study numbers, repeated as often as they are drawn.

        A patient drawn twice is two patients with tied times.
        """
        drawn = self._numbered.drawn(numbers)
        event = self.event[drawn]
        last = _last_event(event)
        return self._at_places(drawn[:last], event[:last])

    def _at_places(self, places: IntArray, event: BoolArray) -> PartialLikelihood:
        return PartialLikelihood(
            self.covariates.take(places, axis=0, mode="clip"),
            event,
            self.rank[places],
            self.number[places],
            self.ties,
        )

    def derivatives(self, beta: FloatArray, detail: Detail) -> Derivatives:
        """Minus the log partial likelihood and its derivatives at β.

        The observed information is the Hessian, so both details give the same. Overflow gives
        a loss that is no number, no exception.
        """
        if not self.event.size:
            return zero_derivatives(0, self.columns, detail)
        with np.errstate(over="ignore", invalid="ignore"):
            predictor = self.covariates @ beta
            largest = float(predictor.max())
            smallest_set = predictor[: self.risk_sets.end[0]]
            if largest - float(smallest_set.max()) > _FARTHEST:
                return self._derivatives_by_stretches(predictor, detail)
            return self._derivatives_at(predictor, largest, detail)

    def _derivatives_by_stretches(self, predictor: FloatArray, detail: Detail) -> Derivatives:
        total = zero_derivatives(0, self.columns, detail)
        for stretch, places in self._stretches(predictor):
            close = predictor[places]
            total += stretch._derivatives_at(close, float(close.max()), detail)
        return total

    def _derivatives_at(
        self, predictor: FloatArray, largest: float, detail: Detail
    ) -> Derivatives:
        """At these β·x, where the largest of every risk set is close to the `largest` of all.

        A risk that is too small for a number is zero, and too small to matter in any φ.
        """
        sets = self.risk_sets
        predictor = predictor - largest
        weights = _weigh(sets, np.exp(predictor))
        loss = weights.log_terms - float(predictor[sets.events].sum())
        gradient = (weights.of_patient - self.event) @ self.covariates
        curvature = None
        if detail is not Detail.GRADIENT:
            means = _weighted_means(sets, weights, self.covariates)
            curvature = self._curvature(weights.of_patient, means, detail)
        return Derivatives(loss, np.zeros(0), gradient, curvature)

    def _stretches(self, predictor: FloatArray) -> Iterator[tuple[PartialLikelihood, IntArray]]:
        """Runs of event times whose risk sets have close largest predictors, latest first.

        Each comes with the places of its patients: those with an event in it, and those at risk
        who are not too far below to matter. Every event is in one stretch, so they add up.
        """
        sets = self.risk_sets
        largest = np.maximum.accumulate(predictor)[sets.end - 1]
        start = 0
        while start < largest.size:
            stop = int(largest.searchsorted(largest[start] + _FARTHEST, side="right"))
            event = self.event[: sets.end[stop - 1]].copy()
            event[: sets.first[start]] = False
            matters = predictor[: event.size] >= largest[stop - 1] - 2.0 * _FARTHEST
            places = (event | matters).nonzero()[0]
            yield self._at_places(places, event[places]), places
            start = stop

    def _curvature(
        self, weight: FloatArray, means: tuple[FloatArray, ...], detail: Detail
    ) -> Curvature:
        """Second moments of x in the risk sets less squared means, summed over the terms."""
        nothing = np.zeros(0)
        if detail is Detail.DIAGONAL:
            square = weight @ self.covariates**2
            for rows in means:
                square -= np.einsum("ij,ij->j", rows, rows)
            return Curvature(nothing, None, square)
        square = weighted_square(self.covariates, weight)
        for rows in means:
            square -= rows.T @ rows
        cross = None if detail is Detail.BLOCK else np.zeros((0, self.columns))
        return Curvature(nothing, cross, square)


def _last_event(event: BoolArray) -> int:
    """How many patients there are up to the last with an event."""
    return event.size - int(event[::-1].argmax()) if event.any() else 0


def _weigh(sets: RiskSets, risk: FloatArray) -> _Weights:
    return (
        _one_term_a_time(sets, risk)
        if sets.efron is None
        else _efron_terms(sets, sets.efron, risk)
    )


def _one_term_a_time(sets: RiskSets, risk: FloatArray) -> _Weights:
    """Breslow's terms, φ the risk of everyone at risk; without ties they are Efron's too."""
    terms = np.cumsum(risk)[sets.end - 1]
    expected = np.cumsum((sets.deaths / terms)[::-1])[::-1]  # at each event time and before
    log_terms = float(sets.deaths @ np.log(terms))
    return _Weights(risk, terms, log_terms, risk * expected.repeat(sets.joining))


def _efron_terms(sets: RiskSets, efron: EfronTerms, risk: FloatArray) -> _Weights:
    """Efron's terms, φ the risk of those without the event plus a share of those with it.

    Only positive numbers are added, so nothing is lost where most at risk have the event.
    """
    time, share = efron.time, efron.share
    summed = np.zeros(risk.size + 1)
    np.cumsum(risk, out=summed[1:])
    tied = np.add.reduceat(risk[sets.events], sets.starts)
    terms = summed[sets.first][time] + share * tied[time]
    inverse = 1.0 / terms
    size = sets.deaths.size
    expected = np.zeros(2 * size + 1)  # without the event at each time, with it, and at the end
    expected[:-1:2] = np.cumsum(np.bincount(time, inverse, size)[::-1])[::-1]
    expected[1::2] = expected[2::2] + np.bincount(time, share * inverse, size)
    of_patient = risk * expected[:-1].repeat(efron.runs)
    return _Weights(risk, terms, float(np.log(terms).sum()), of_patient)


def _weighted_means(
    sets: RiskSets, weights: _Weights, covariates: FloatArray
) -> tuple[FloatArray, ...]:
    """Matrices whose squares add up to Σ x̄ x̄ᵀ over all terms, x̄ the mean of x in a term.

    It is linear in the term's share, (A + share·B)/φ, so the d terms of a tied event time need
    two rows, not d: one at their mean share, one for the spread around it.
    """
    bounds = np.concatenate(([0], sets.end))
    means = np.cumsum(_sums_of_runs(bounds, weights.risk, covariates), axis=0)
    efron = sets.efron
    if efron is None:
        means *= (np.sqrt(sets.deaths) / weights.terms)[:, None]
        return (means,)
    time, size = efron.time, sets.deaths.size
    tied = (sets.deaths > 1).nonzero()[0]
    inverse = weights.terms**-2
    total = np.bincount(time, inverse, size)
    share = np.bincount(time, efron.share * inverse, size) / total
    spread = np.bincount(time, (efron.share - share[time]) ** 2 * inverse, size)
    bounds = np.stack((sets.first[tied], sets.end[tied]), axis=1).ravel()
    of_tied = _sums_of_runs(bounds, weights.risk, covariates)[0::2]
    means[tied] -= (1.0 - share[tied])[:, None] * of_tied
    means *= np.sqrt(total)[:, None]
    of_tied *= np.sqrt(spread[tied])[:, None]
    return means, of_tied


def _sums_of_runs(bounds: IntArray, weight: FloatArray, covariates: FloatArray) -> FloatArray:
    """Σ w·x over the neighbours from each bound to the next: (bounds − 1, columns)."""
    start, stop = int(bounds[0]), int(bounds[-1])
    places = np.arange(stop - start, dtype=np.int32)
    rows = sparse.csr_array(
        (weight[start:stop], places, (bounds - start).astype(np.int32)),
        shape=(bounds.size - 1, stop - start),
    )
    return np.asarray(rows @ covariates[start:stop])
