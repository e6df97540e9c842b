"""Costs that add up: a patient's hazard is a sum over pieces, so no cell is ever computed.

With a_k = exp(α_k), the hazard summed over piece k at covariates zero, and r_i = exp(β·x_i), a
patient who passes p_i pieces and lives through the part f_i of the next costs

    Λ_i = r_i (a_1 + … + a_(p_i) + f_i a_(p_i + 1)),

and a piece takes a_k Σ_i r_i times what each was at risk of it: sums over those who leave in
each piece, added up from the last. The work is that of two products with the covariates,
however many pieces there are; patients stay in the order they came in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    risk_of,
    zero_derivatives,
)
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeAtRisk
from fedcox.survival.weighted_square import weighted_square

_BLOCK = 1024  # patients at a time: their covariates stay in the cache


@dataclass(frozen=True, eq=False)
class PieceSums:
    """One center's patients on the pieces.

    rows    (patients,) their rows in the cohort
    placed  where each of these leaves
    pieces  how many there are
    """

    cohort: Cohort
    scaling: Scaling
    rows: IntArray
    placed: TimeAtRisk
    pieces: int

    @classmethod
    def of(cls, cohort: Cohort, scaling: Scaling, placed: TimeAtRisk, pieces: int) -> PieceSums:
        return cls(cohort, scaling, np.arange(cohort.patients), placed, pieces)

    def draw(self, numbers: IntArray) -> PieceSums:
        """The patients with these study numbers, repeated as often as they are drawn."""
        by_number = np.argsort(self.cohort.number[self.rows])
        known = self.cohort.number[self.rows][by_number]
        first = np.searchsorted(known, numbers)
        inside = first < known.size
        inside[inside] = known[first[inside]] == numbers[inside]
        drawn = np.sort(by_number[first[inside]])
        return PieceSums(
            self.cohort, self.scaling, self.rows[drawn], self.placed.rows(drawn), self.pieces
        )

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rates = np.exp(alpha)
            if not np.isfinite(np.add.reduce(rates)):
                return beyond_numbers(alpha.size, beta.size, detail)
            return self._sums(link, rates, beta, detail)

    def _sums(
        self, link: AbstractLink, rates: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        size, columns = self.pieces, beta.size
        placed = self.placed
        following = np.append(rates, 0.0)[placed.passed]
        hazard = np.append(0.0, np.add.accumulate(rates))[placed.passed]
        hazard += placed.part * following
        whole = detail in (Detail.HESSIAN, Detail.INFORMATION)
        total = zero_derivatives(size, columns, detail)
        # Sums by the piece that patients leave in: of those who reach it, of their parts of it.
        risk_by = np.zeros((2, size + 1))
        cross_by = np.zeros((2 * (size + 1), columns)) if whole else None
        slope_by, curved_by = np.zeros(size + 1), np.zeros(size + 1)
        loss = 0.0
        for start in range(0, self.rows.size, _BLOCK):
            own = slice(start, start + _BLOCK)
            x = np.empty((min(_BLOCK, self.rows.size - start), columns))
            block = self.cohort.covariates.take(self.rows[own], axis=0)
            self.scaling.apply(block, out=x, complete=self.cohort.complete)
            passed, part = placed.passed[own], placed.part[own]
            risk = risk_of(x @ beta)
            cumulative = risk * hazard[own]
            happened = np.flatnonzero(placed.event[own])
            event = link.event(following[own][happened] * risk[happened])
            loss += float(np.add.reduce(cumulative)) + float(np.add.reduce(event.cost))
            risk_by[0] += np.bincount(passed, risk, size + 1)
            risk_by[1] += np.bincount(passed, part * risk, size + 1)
            slope_by += np.bincount(passed[happened], event.slope, size + 1)
            weight = cumulative.copy()
            weight[happened] += event.slope
            np.add(total.beta, weight @ x, out=total.beta)
            if total.curvature is None:
                continue
            curved_by += np.bincount(passed[happened], event.curvature, size + 1)
            cumulative[happened] += event.curvature
            if detail is Detail.DIAGONAL:
                np.add(total.curvature.beta, cumulative @ x**2, out=total.curvature.beta)
                continue
            square = weighted_square(x, np.maximum(cumulative, 0.0))
            np.add(total.curvature.beta, square, out=total.curvature.beta)
            if cross_by is not None:
                leaving = np.zeros(passed.size)
                leaving[happened] = event.curvature
                # By piece: everyone who leaves in it, and the part of it that each was there.
                weights = np.stack([risk, part * risk * following[own] + leaving], axis=1)
                places = np.stack([passed, passed + size + 1], axis=1)
                pointers = np.arange(0, places.size + 1, 2)
                matrix = sparse.csc_array(
                    (weights.ravel(), places.ravel(), pointers),
                    shape=(len(cross_by), passed.size),
                )
                cross_by += matrix @ x
        at_risk = rates * (_passing(risk_by[0]) + risk_by[1, :size])
        np.add(at_risk, slope_by[:size], out=total.alpha)
        if total.curvature is not None:
            np.add(at_risk, curved_by[:size], out=total.curvature.alpha)
        if cross_by is not None and total.curvature is not None:
            cross = rates[:, None] * _passing(cross_by[: size + 1])
            curvature = Curvature(
                total.curvature.alpha,
                cross + cross_by[size + 1 : -1],
                total.curvature.beta,
            )
            total = total._replace(curvature=curvature)
        return total._replace(loss=loss)


def _passing(leaving: FloatArray) -> FloatArray:
    """Sums over those who pass each piece, from sums over those who leave in each."""
    return np.asarray(np.add.accumulate(leaving[:0:-1])[::-1])
