"""What is the gradient at these parameters, in few bytes? For many rounds over thin lines.

Bytes are saved, nothing else: what one reply leaves out a later one brings, so that a center's
policy holds as for the gradient itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedcox.federation.compression import (
    SINGLE_BYTES,
    AbstractCodec,
    ErrorFeedback,
    Float32,
    RandomPlaces,
)
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import AbstractAdditiveQuery, AbstractQuery, Shared
from fedcox.federation.setting import Setting
from fedcox.federation.sums import Shapes
from fedcox.models.predictors.linear import linear_alone
from fedcox.survival.bounds import MOST_ROUNDS, between
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail

#: A compressed question brings its step, the compression, its share and its seed along.
_NUMBERS_MORE = 4
_SINGLE = Float32()


@dataclass(frozen=True, eq=False)
class CompressedGradient:
    """Loss and gradient (intervals + columns,) as they arrive, and the bytes that brought them.

    A sum of several replies does not travel: it has no bytes.
    """

    loss: float
    gradient: FloatArray
    payload: bytes = b""

    def __add__(self, other: CompressedGradient) -> CompressedGradient:
        return CompressedGradient(self.loss + other.loss, self.gradient + other.gradient)


class AbstractCompressedGradient(AbstractQuery[CompressedGradient]):
    """The gradient that `asked` stands for, compressed in `step` 1, 2, … of a search.

    With `feedback` a reply is no longer a function of the patients alone: a center adds what
    it has not sent in earlier steps.
    """

    words: ClassVar = {
        "compressed gradient": "the slope in fewer bytes, which saves bytes and hides nothing"
    }
    parts = DerivativesAt.parts
    by_default = True
    sent_type = bytes

    asked: DerivativesAt
    step: int
    feedback: ErrorFeedback | None

    @property
    def name(self) -> str:
        batch = "" if self.asked.batch is None else f" of {self.asked.batch.name}"
        return f"compressed gradient{batch}"

    @property
    def numbers(self) -> int:
        return self.asked.numbers + _NUMBERS_MORE

    @property
    def setting(self) -> Setting:
        return self.asked.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.asked.point

    @property
    def batched(self) -> bool:
        return self.asked.batched

    @property
    def size(self) -> int:
        """How many entries the gradient has."""
        return self.asked.alpha.size + self.asked.beta.size

    @property
    def continues(self) -> Shared | None:
        return self.feedback if self.step > 1 else None

    def faults(self, columns: int | None) -> Iterator[str]:
        """Steps are counted from one, and there is something to compress."""
        yield from linear_alone(self.asked.agreed.predictor)
        yield from between("step", self.step, 1, MOST_ROUNDS)
        if self.asked.detail is not Detail.GRADIENT:
            yield "only a gradient can be compressed"
        if not self.size:
            yield "there are no parameters"

    def shapes(self, columns: int | None) -> Shapes:
        return {"gradient": (self.size,)}

    def answer_faults(self, answer: CompressedGradient) -> Iterator[str]:
        if not (np.isfinite(answer.loss) and np.isfinite(answer.gradient).all()):
            yield "must be finite"

    def sent(self, answer: CompressedGradient) -> bytes:
        return answer.payload

    def received(self, sent: bytes) -> CompressedGradient:
        with np.errstate(all="ignore"):  # what is not finite is refused afterwards
            return self.read(sent)

    def answer(self, cohort: Cohort) -> CompressedGradient:
        here = self.asked.answer(cohort)
        gradient = np.concatenate([here.alpha, here.beta])
        if self.feedback is None:
            return self.read(self.write(here.loss, gradient))
        before = self.feedback.before(cohort, self.step, self.size)
        wanted = gradient + before
        reply = self.read(self.write(here.loss, wanted))
        self.feedback.remember(cohort, self.step, before, wanted - reply.gradient)
        return reply

    @abstractmethod
    def write(self, loss: float, gradient: FloatArray) -> bytes:
        """A reply as it travels."""

    @abstractmethod
    def read(self, payload: bytes) -> CompressedGradient:
        """A reply as it arrives."""

    def derivatives(self, answer: CompressedGradient) -> Derivatives:
        """A reply, or the sum of replies, as solvers know it."""
        intervals = self.asked.alpha.size
        return Derivatives(
            answer.loss, answer.gradient[:intervals], answer.gradient[intervals:], None
        )


@dataclass(frozen=True, eq=False)
class CompressedGradientAt(AbstractCompressedGradient):
    """By a codec: each center's reply is its own, and what the replies stand for adds.

    The bytes themselves do not add, so that masks cannot be laid on them.
    """

    asked: DerivativesAt
    step: int
    codec: AbstractCodec
    feedback: ErrorFeedback | None = None

    def write(self, loss: float, gradient: FloatArray) -> bytes:
        return _SINGLE.encode(np.array([loss])) + self.codec.encode(gradient)

    def read(self, payload: bytes) -> CompressedGradient:
        loss = _SINGLE.decode(payload[:SINGLE_BYTES], 1)
        gradient = self.codec.decode(payload[SINGLE_BYTES:], self.size)
        return CompressedGradient(float(loss[0]), gradient, payload)

    def combine(
        self, left: CompressedGradient, right: CompressedGradient
    ) -> CompressedGradient:
        return left + right

    def numbers_in(self, answer: CompressedGradient) -> int:
        return 1 + self.codec.numbers(self.size)

    def bytes_in(self, answer: CompressedGradient) -> int:
        return len(answer.payload)


@dataclass(frozen=True, eq=False)
class RandomEntriesAt(AbstractCompressedGradient, AbstractAdditiveQuery[CompressedGradient]):
    """The entries at places that all centers have drawn alike; the others are zero.

    Replies are vectors of one length whose entries mean the same at every center: they add,
    under masks too.
    """

    asked: DerivativesAt
    step: int
    places: RandomPlaces
    feedback: ErrorFeedback | None = None

    def write(self, loss: float, gradient: FloatArray) -> bytes:
        return _SINGLE.encode(self.pack(CompressedGradient(loss, gradient)))

    def read(self, payload: bytes) -> CompressedGradient:
        values = _SINGLE.decode(payload, 1 + self._drawn.size)
        answer = self.unpack(values)
        return CompressedGradient(answer.loss, answer.gradient, payload)

    def numbers_in(self, answer: CompressedGradient) -> int:
        return 1 + self._drawn.size

    def bytes_in(self, answer: CompressedGradient) -> int:
        return len(answer.payload)

    def pack(self, answer: CompressedGradient) -> FloatArray:
        return np.concatenate([[answer.loss], answer.gradient[self._drawn]])

    def unpack(self, vector: FloatArray) -> CompressedGradient:
        gradient = np.zeros(self.size)
        gradient[self._drawn] = vector[1:]
        return CompressedGradient(float(vector[0]), gradient)

    @cached_property
    def _drawn(self) -> IntArray:
        return self.places.at(self.step, self.size)
