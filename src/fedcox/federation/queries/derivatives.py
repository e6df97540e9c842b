"""Loss, gradient and curvature at these parameters: the question of every solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.batch import Batch, CellBatch, EpochCells, PatientBatch
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.federation.sums import Shape, Shapes, Symmetric
from fedcox.models.predictors import words_by_predictor
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail

_OF_PREDICTORS = words_by_predictor(*(detail.value for detail in Detail))


@dataclass(frozen=True, eq=False)
class DerivativesAt(AbstractSumQuery[Derivatives]):
    """Sums over a center's patients, or over its share of a batch.

    With a network β are its weights. Neither a network nor a batch of cells has a curvature:
    they are for training by gradients.
    """

    words: ClassVar = {
        "gradient": "the slope of the log-likelihood at the current estimate",
        "diagonal": "slope, and the diagonal of the curvature",
        "block": "slope, and the curvature without the time-by-covariate part",
        "hessian": "slope and curvature of the log-likelihood at the current estimate",
        "information": "the expected curvature, from which standard errors come",
        **_OF_PREDICTORS,
    }
    parts = PatientBatch.name, CellBatch.name
    by_default = True
    only_if_named = frozenset(_OF_PREDICTORS)

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    detail: Detail
    batch: Batch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else f" of {self.batch.name}"
        return f"{self.agreed.predictor.prefix}{self.detail.value}{batch}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + (0 if self.batch is None else self.batch.sent)

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    @property
    def batched(self) -> bool:
        return self.batch is not None

    #: Losses are compared with each other, to their last digits.
    fine = 1

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of the setting's, and so is a batch of cells."""
        yield from self.agreed.point_faults(self.alpha, self.beta)
        if not self.agreed.predictor.has_curvature and self.detail is not Detail.GRADIENT:
            yield "a network has a gradient and no curvature"
        if isinstance(self.batch, CellBatch | EpochCells):
            if self.detail is not Detail.GRADIENT:
                yield "a batch of cells has a gradient and no curvature"
            if self.batch.intervals != self.agreed.intervals:
                yield "the batch's intervals must be those that are fitted"
            if self.agreed.basis is not None:
                yield "a batch of cells has no spline for its baseline"

    def shapes(self, columns: int | None) -> Shapes:
        sizes, spline = (self.alpha.size, self.beta.size), self.agreed.basis is not None
        return derivative_shapes(*sizes, self.detail, spline=spline)

    def answer(self, cohort: Cohort) -> Derivatives:
        if isinstance(self.batch, CellBatch | EpochCells):
            if self.detail is not Detail.GRADIENT:
                raise ValueError("A batch of cells has a gradient and no curvature.")
            pairs = self.batch.pairs()
            return self.agreed.cell_gradient(cohort, pairs, self.alpha, self.beta)
        patients = self.agreed.prepared(cohort)
        if self.batch is not None:
            patients = patients.draw(self.batch.numbers())
        return patients.derivatives(self.agreed.link, self.alpha, self.beta, self.detail)


def derivative_shapes(
    intervals: int, columns: int, detail: Detail, *, spline: bool = False
) -> Shapes:
    """The shapes of `Derivatives` of so many parameters, with as much curvature."""
    gradient: dict[str, Shape] = {"alpha": (intervals,), "beta": (columns,)}
    if detail is Detail.GRADIENT:
        return gradient
    whole = detail in (Detail.HESSIAN, Detail.INFORMATION)
    cross: dict[str, Shape] = {"curvature: cross": (intervals, columns)} if whole else {}
    return {
        **gradient,
        "curvature: alpha": Symmetric(intervals) if whole and spline else (intervals,),
        **cross,
        "curvature: beta": (columns,) if detail is Detail.DIAGONAL else Symmetric(columns),
    }
