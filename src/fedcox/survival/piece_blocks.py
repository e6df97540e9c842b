"""What sums over pieces are made of: the point, neighbours who leave, and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import AbstractLink


@dataclass(frozen=True, eq=False)
class PiecePoint:
    """Where the sums are taken.

    rates       (pieces + 1,) exp(α), and zero after the last piece
    before      (pieces + 1,) the sum of the rates of those pieces that come before
    beta        (columns,) for the covariates as they are summed over
    """

    link: AbstractLink
    detail: Detail
    rates: FloatArray
    before: FloatArray
    beta: FloatArray

    @cached_property
    def effects(self) -> bool:
        """Whether there are any: every fit begins without."""
        return bool(self.beta.any())

    @property
    def whole(self) -> bool:
        """Whether the curvature of α by β is asked for."""
        return self.detail in (Detail.HESSIAN, Detail.INFORMATION)


class Sums(NamedTuple):
    """Over some patients, on the covariates as they are summed over; empty if not asked for.

    cost        () of the events
    slope       (columns,) Σ slope · x over patients
    curved      (columns,) Σ curvature · x, if not by piece
    square      (columns, columns) Σ curvature · x xᵀ, or its diagonal
    cross       (pieces + 1, columns) by how much Σ r x of those at risk falls from one piece
                to the next, and after the last to nothing
    by_piece    (2 or 4, pieces + 1) over those who leave in each piece: r; r by the part of it
                that they lived through; slope and curvature of its events, if no constants
    """

    cost: FloatArray
    slope: FloatArray
    curved: FloatArray
    square: FloatArray
    cross: FloatArray
    by_piece: FloatArray

    @classmethod
    def total(cls, all_sums: Iterable[Sums]) -> Sums:
        """Added up in their order, in the place of the first."""
        first, *others = all_sums
        for sums in others:
            for part, more in zip(first, sums, strict=True):
                part += more
        return first


class Exits(NamedTuple):
    """Where some neighbours leave: a row for each, or for each copy of one.

    piece, lived    (rows,) the piece, and the part of it that was lived through
    patient, share  (rows,) whose copy it is, and how much it counts; None without copies
    """

    piece: IntArray
    lived: FloatArray
    patient: IntArray | None = None
    share: FloatArray | None = None

    def hazard(self, point: PiecePoint, patients: int) -> FloatArray:
        """At covariates zero, of each patient."""
        hazard = point.rates.take(self.piece)
        hazard *= self.lived
        hazard += point.before.take(self.piece)
        if self.patient is None or self.share is None:
            return hazard
        return np.asarray(np.bincount(self.patient, self.share * hazard, patients))

    def risk(self, risk: FloatArray) -> FloatArray:
        """Of each row, from that of each patient."""
        return (
            risk
            if self.patient is None or self.share is None
            else self.share * risk[self.patient]
        )


class Vectors(NamedTuple):
    """One number for each of some neighbours: known beforehand, or written block by block.

    place       their places among all patients
    hazard      at covariates zero
    predictor   β·x; `risk` is its exponential
    events      (2, patients) slope and curvature of the events, if they are no constants
    happened    how often the logarithm of the hazard counts, where they are: once an event
    """

    place: slice
    hazard: FloatArray
    predictor: FloatArray
    risk: FloatArray
    events: FloatArray
    happened: FloatArray

    def block(self, here: slice) -> Vectors:
        return Vectors(
            slice(self.place.start + here.start, self.place.start + here.stop),
            self.hazard[here],
            self.predictor[here],
            self.risk[here],
            self.events[:, here],
            self.happened[here],
        )
