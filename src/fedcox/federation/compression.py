"""How a gradient becomes few bytes, and who remembers what is lost on the way.

A codec writes a vector as the bytes that travel and reads it back; both sides know the codec
and the vector's length, so that no header travels. What is lost is the sender's to remember:
see `ErrorFeedback`. Fewer bytes are no privacy: with error feedback all of it arrives in the
end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError, RefusedError
from fedcox.federation.query import Shared
from fedcox.survival.bounds import not_negative
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

#: Single precision, little-endian: a value or a scale as it travels.
_SINGLE = np.dtype("<f4")
SINGLE_BYTES = _SINGLE.itemsize
#: 8-bit codes run from −127 to 127, so that zero is one of them and signs are alike.
_LARGEST_CODE = 127

CompressionName = Literal["none", "float32", "8-bit", "sign", "top-k", "random-k"]

#: Those that send a share of the entries.
KEEPING: tuple[CompressionName, ...] = ("top-k", "random-k")
#: Why replies of these kinds cannot be summed under masks.
NOT_ADDITIVE: Mapping[str, str] = {
    "float32": "a masked number takes eight bytes whatever it was before",
    "8-bit": "every center's codes have a scale of their own, and codes of different scales "
    "do not add",
    "sign": "signs do not add, and every center's have a scale of their own",
    "top-k": "every center chooses places of its own, which would travel unmasked and depend "
    "on its patients",
}


class AbstractCodec(ABC):
    """Writes a vector as bytes and reads it back, as near as the bytes allow.

    A vector that is not finite comes back not finite, whatever was lost: a search that ran
    away is not to look like one that did not.
    """

    @abstractmethod
    def encode(self, vector: FloatArray) -> bytes:
        """The vector as it travels."""

    @abstractmethod
    def decode(self, payload: bytes, size: int) -> FloatArray:
        """What the receiver of the bytes makes of them: a vector of `size` entries."""

    @abstractmethod
    def numbers(self, size: int) -> int:
        """How many numbers, of whatever width, the bytes hold."""


@dataclass(frozen=True)
class Float32(AbstractCodec):
    """Every entry in single precision."""

    def encode(self, vector: FloatArray) -> bytes:
        return _single(vector).tobytes()

    def decode(self, payload: bytes, size: int) -> FloatArray:
        _check_length(payload, SINGLE_BYTES * size)
        return np.frombuffer(payload, _SINGLE).astype(np.float64)

    def numbers(self, size: int) -> int:
        return size


@dataclass(frozen=True)
class EightBit(AbstractCodec):
    """Every entry as the nearest of 255 levels up to the vector's own largest size."""

    def encode(self, vector: FloatArray) -> bytes:
        scale = _scale(np.asarray(np.abs(vector).max()))
        codes = np.zeros(vector.size, np.int8)
        if np.isfinite(scale) and scale > 0.0:
            # Rounding the scale to single precision may put the largest just above it.
            levels = np.rint(vector * (_LARGEST_CODE / float(scale)))
            codes = np.clip(levels, -_LARGEST_CODE, _LARGEST_CODE).astype(np.int8)
        return scale.tobytes() + codes.tobytes()

    def decode(self, payload: bytes, size: int) -> FloatArray:
        _check_length(payload, SINGLE_BYTES + size)
        scale = _read_scale(payload)
        codes = np.frombuffer(payload, np.int8, offset=SINGLE_BYTES)
        return codes.astype(np.float64) * (scale / _LARGEST_CODE)

    def numbers(self, size: int) -> int:
        return 1 + size


@dataclass(frozen=True)
class Sign(AbstractCodec):
    """One bit an entry, and the mean size of all of them (Karimireddy et al. 2019)."""

    def encode(self, vector: FloatArray) -> bytes:
        scale = _scale(np.asarray(np.abs(vector).mean()))
        return scale.tobytes() + np.packbits(vector >= 0.0).tobytes()

    def decode(self, payload: bytes, size: int) -> FloatArray:
        _check_length(payload, SINGLE_BYTES + -(-size // 8))
        bits = np.frombuffer(payload, np.uint8, offset=SINGLE_BYTES)
        positive = np.unpackbits(bits, count=size).astype(np.float64)
        return (2.0 * positive - 1.0) * _read_scale(payload)

    def numbers(self, size: int) -> int:
        return 1 + size


@dataclass(frozen=True)
class TopK(AbstractCodec):
    """The largest entries, a share of `keep`, in single precision; the others are zero.

    Which ones they are depends on the patients and travels too.
    """

    keep: float

    def __post_init__(self) -> None:
        _check_share(self.keep)

    def encode(self, vector: FloatArray) -> bytes:
        kept = entries_kept(self.keep, vector.size)
        # Not a number sorts after every number, so that it is among the largest.
        largest = np.argpartition(np.abs(vector), vector.size - kept)[vector.size - kept :]
        largest.sort()
        places = largest.astype(_place_type(vector.size))
        return places.tobytes() + _single(vector[largest]).tobytes()

    def decode(self, payload: bytes, size: int) -> FloatArray:
        kept, width = entries_kept(self.keep, size), _place_type(size)
        _check_length(payload, kept * (width.itemsize + SINGLE_BYTES))
        places = np.frombuffer(payload, width, count=kept).astype(np.int64)
        if places[-1] >= size or (np.diff(places) <= 0).any():
            raise InputError(
                "A compressed reply cannot be read.",
                ["Its places are not in order or beyond the vector's end. Ask the center."],
            )
        vector = np.zeros(size)
        vector[places] = np.frombuffer(payload, _SINGLE, offset=kept * width.itemsize)
        return vector

    def numbers(self, size: int) -> int:
        return 2 * entries_kept(self.keep, size)


@dataclass(frozen=True)
class RandomPlaces:
    """Which entries travel in a step, a share of `keep`: the same ones at every center.

    All draw them from `seed`, so that no place travels and the replies add entry by entry.
    Steps take turns: a shuffled order is gone through before the next one is drawn, and every
    entry travels in each turn.
    """

    keep: float
    seed: int

    def __post_init__(self) -> None:
        _check_share(self.keep)

    def faults(self, columns: int | None) -> Iterator[str]:
        """Places are drawn by a seed."""
        yield from not_negative("seed", self.seed)

    def at(self, step: int, size: int) -> IntArray:
        """The places of step 1, 2, …, in rising order."""
        kept = entries_kept(self.keep, size)
        turn, part = divmod(step - 1, -(-size // kept))
        order = np.random.default_rng((self.seed, turn)).permutation(size)
        # The last part of a turn begins again where the entries have run out.
        places = order.take(np.arange(part * kept, (part + 1) * kept), mode="wrap")
        places.sort()
        return places


def entries_kept(keep: float, size: int) -> int:
    """How many entries are a share of `keep`: at most that share, but at least one."""
    # 0.29 of 100 is a little less than 29 in floating point.
    return min(size, max(1, floor(keep * size * (1.0 + 1e-12))))


class _Unsent(NamedTuple):
    """What was missing before the last step that a center answered, and after it."""

    step: int
    before: FloatArray
    after: FloatArray


@dataclass(frozen=True, eq=False)
class ErrorFeedback(Shared):
    """What each center has not sent so far; it stays there and is added to its next vector.

    Asked again for the same step, a center answers as it did: nothing is added twice. What is
    kept is forgotten with the search it belongs to.
    """

    #: When a search begins there is nothing unsent to go by.
    named_by_content = False

    _unsent: WeakKeyDictionary[Cohort, _Unsent] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    def before(self, cohort: Cohort, step: int, size: int) -> FloatArray:
        """What the center has not sent before this step."""
        kept = self._unsent.get(cohort)
        if kept is None:
            return np.zeros(size)
        if step < kept.step:
            raise RefusedError(
                "A center is asked for a step that is over.",
                [
                    f"It has answered step {kept.step} and keeps what that one left; step "
                    f"{step} cannot be answered again. Begin a new search."
                ],
            )
        return kept.before if step == kept.step else kept.after

    def remember(
        self, cohort: Cohort, step: int, before: FloatArray, after: FloatArray
    ) -> None:
        """Keep what is still missing `after` this step, and what was `before` it."""
        self._unsent[cohort] = _Unsent(step, before, after)


def _single(values: FloatArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(_SINGLE)


def _scale(value: FloatArray) -> NDArray[np.float32]:
    """One scale as it travels; not a number where it is not finite, and so are its entries."""
    scale = _single(value)
    return scale if np.isfinite(scale) else np.array(np.nan, _SINGLE)


def _read_scale(payload: bytes) -> float:
    return float(np.frombuffer(payload, _SINGLE, count=1)[0])


def _place_type(size: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u2") if size <= 1 << 16 else np.dtype("<u4")


def _check_share(keep: float) -> None:
    if not 0.0 < keep <= 1.0:
        raise InputError(
            "This share of entries cannot be kept.",
            [f"Found keep = {keep:g}; a number above 0 and at most 1 is needed."],
        )


def _check_length(payload: bytes, expected: int) -> None:
    if len(payload) != expected:
        raise InputError(
            "A compressed reply cannot be read.",
            [
                f"It has {len(payload)} bytes, and {expected} are needed. Do center and "
                "coordinator run the same study in the same version?"
            ],
        )
