"""The discrete-time model's loss, its gradients sent in few bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedcox.errors import InputError
from fedcox.federation.batch import PatientBatch
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
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail


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
        self,
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        step: int,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        """Sums over all patients, or over a batch of them: one round."""
        self._check(federation)
        asked = DerivativesAt(self.setting, alpha, beta, Detail.GRADIENT, batch)
        query = self._query(asked, step)
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

    def _check(self, federation: Federation) -> None:
        if self.compression in NOT_ADDITIVE and not federation.shows_centers:
            raise InputError(
                f'The compression "{self.compression}" cannot be summed under masks.',
                [
                    f'The reason: {NOT_ADDITIVE[self.compression]}. Take "random-k", whose '
                    'replies add, or "none".'
                ],
            )
