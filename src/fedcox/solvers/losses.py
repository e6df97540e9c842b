"""The losses that solvers minimise, each asked of a federation: one round, one sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedcox.errors import InputError
from fedcox.federation.batch import Batch, PatientBatch
from fedcox.federation.compression import (
    NOT_ADDITIVE,
    AbstractCodec,
    CompressionName,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
)
from fedcox.federation.queries.compressed_gradient import (
    AbstractCompressedGradient,
    CompressedGradientAt,
    RandomEntriesAt,
)
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.risk_set_sums import RiskSetSetting, RiskSetSumsAt
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.solver import Patients, Point, Problem
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.risk_set_moments import EventSums, breslow


@dataclass(frozen=True, eq=False)
class DiscreteTimeLoss:
    """−log L(α, β) of the model α + φ(x), under one setting."""

    setting: Setting

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Batch | None = None
    ) -> Derivatives:
        return federation.ask(DerivativesAt(self.setting, *at, detail, batch))


def setting_of(problem: Problem, what: str) -> Setting:
    """The setting of a model α + φ(x), which `what` is there for alone."""
    if not isinstance(problem.loss, DiscreteTimeLoss):
        raise TypeError(f"{what} is there for the discrete-time model alone.")
    return problem.loss.setting


@dataclass(frozen=True, eq=False)
class CompressedLoss:
    """−log L(α, β) and its gradient as they arrive; one object for one search.

    `keep` is the share of entries that "top-k" and "random-k" send, `seed` says which ones the
    latter does. Without `feedback` what is not sent is lost.
    """

    setting: Setting
    compression: CompressionName
    keep: float
    seed: int
    feedback: ErrorFeedback | None = field(default_factory=ErrorFeedback)

    def at(
        self, federation: Federation, point: Point, step: int, batch: PatientBatch | None = None
    ) -> Derivatives:
        """Sums over all patients, or over a batch of them: one round."""
        if self.compression in NOT_ADDITIVE and not federation.shows_centers:
            raise InputError(
                f'The compression "{self.compression}" cannot be summed under masks.',
                [
                    f'The reason: {NOT_ADDITIVE[self.compression]}. Take "random-k", whose '
                    'replies add, or "none".'
                ],
            )
        query = self._query(DerivativesAt(self.setting, *point, Detail.GRADIENT, batch), step)
        return query.derivatives(federation.ask(query))

    def _query(self, asked: DerivativesAt, step: int) -> AbstractCompressedGradient:
        if self.compression == "random-k":
            places = RandomPlaces(self.keep, self.seed)
            return RandomEntriesAt(asked, step, places, self.feedback)
        codecs: dict[str, AbstractCodec] = {
            "float32": Float32(),
            "8-bit": EightBit(),
            "sign": Sign(),
            "top-k": TopK(self.keep),
        }
        return CompressedGradientAt(asked, step, codecs[self.compression], self.feedback)


@dataclass(frozen=True, eq=False)
class StratifiedCoxLoss:
    """Minus the log partial likelihood with every center as its own stratum; α is empty."""

    setting: CoxSetting

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        return federation.ask(StratifiedCoxAt(self.setting, at.beta, detail, batch))


@dataclass(frozen=True, eq=False)
class WebDiscoLoss:
    """Breslow's log partial likelihood of the pooled patients, negative, from WebDISCO's sums.

    `sums` are those of all centers, on the scaled covariates. α is empty.
    """

    setting: RiskSetSetting
    sums: EventSums

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        if batch is not None:
            raise ValueError("WebDISCO sums over all patients and has no batches.")
        moments = federation.ask(RiskSetSumsAt(self.setting, at.beta, detail))
        return breslow(moments, self.sums, at.beta, detail)
