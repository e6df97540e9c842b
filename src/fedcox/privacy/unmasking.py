"""How every mask is taken off a sum, and how one sees that all are off.

The coordinator does it with what the centers send; a center can do it again with a transcript.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.masks import CHECK, Masking, closed_seed, released_context, round_context
from fedcox.privacy.messages import MaskedVector, Release, binding, checked, read, round_of
from fedcox.privacy.session import Session


@dataclass(frozen=True, eq=False)
class SumRound:
    """The vectors that came, of the centers that were asked."""

    number: int
    centers: tuple[str, ...]
    context: bytes
    vectors: Mapping[str, UIntArray]

    @property
    def survivors(self) -> tuple[str, ...]:
        return tuple(sorted(self.vectors))

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.centers) - set(self.vectors)))

    @property
    def released(self) -> bytes:
        return released_context(self.context, self.survivors)


def read_round(
    session: Session,
    number: int,
    question: bytes,
    centers: tuple[str, ...],
    messages: Mapping[str, bytes],
) -> SumRound:
    """Verify what the centers of a round sent under their masks; some may have sent nothing."""
    context = round_context(session.study, session.digest, number, question, centers)
    vectors = {
        name: _vector(session, number, context, name, messages[name])
        for name in centers
        if name in messages
    }
    if len({vector.size for vector in vectors.values()}) > 1:
        raise SecureSumError(
            "The centers sent vectors of different lengths: "
            + ", ".join(f"{name} {vector.size - 1}" for name, vector in vectors.items())
        )
    return SumRound(number, centers, context, vectors)


def read_releases(
    session: Session, current: SumRound, messages: Mapping[str, bytes]
) -> dict[str, Release]:
    """Verify what survivors gave to open the sum over exactly these survivors."""
    parse = partial(
        Release.from_bytes,
        openings=len(current.survivors) - 1,
        pair_mask_keys=len(current.dropped),
    )
    return {
        name: read(
            parse,
            signed_body(session, "release", current.released, name, message),
            f"A message of center '{name}'",
        )
        for name, message in messages.items()
    }


def signed_body(session: Session, step: str, where: bytes, name: str, message: bytes) -> bytes:
    """What a center of the session signed for one step and place in it."""
    what = f"The {step} message of center '{name}'"
    return checked(session.identities[name], binding(step, where, name), message, what)


def _vector(
    session: Session, number: int, context: bytes, name: str, message: bytes
) -> UIntArray:
    what = f"The masked vector of center '{name}'"
    sent = round_of(message, what)
    if sent != number:
        raise SecureSumError(f"{what} is of round {sent}, not of round {number}.")
    body = signed_body(session, "vector", context, name, message)
    return read(MaskedVector.from_bytes, body, what).vector


def opened_seeds(
    released: Mapping[str, Release],
    survivors: tuple[str, ...],
    recovered: Mapping[str, tuple[bytes, ...]],
) -> dict[str, bytes]:
    """Open the seeds of centers that released, by what each other survivor gave for them.

    `recovered` holds, by owner, the openings that centers now gone would have given.
    """
    openings = {name: list(recovered.get(name, ())) for name in released}
    for giver, release in released.items():
        others = (name for name in survivors if name != giver)
        for owner, given in zip(others, release.openings, strict=True):
            if owner in openings:
                openings[owner].append(given)
    return {name: closed_seed(released[name].closed_seed, openings[name]) for name in released}


def unmasked(
    current: SumRound, released: Mapping[str, Release], seeds: Mapping[str, bytes]
) -> UIntArray:
    """Take every mask off the sum of the vectors, and see by the check number that all are."""
    vectors = list(current.vectors.values())
    masking = Masking(vectors[0])
    for vector in vectors[1:]:
        masking.vector += vector
    for seed in seeds.values():
        masking.without_self_mask(seed)
    if current.dropped:
        for name, release in released.items():
            for other, key in zip(current.dropped, release.pair_mask_keys, strict=True):
                masking.without_pair(key, name, other)
    if masking.vector[-1] != CHECK * np.uint64(len(vectors)):
        raise SecureSumError(
            f"The masks of round {current.number} do not vanish in the sum: a center used "
            "other keys than it announced. No part of the sum is used."
        )
    return masking.vector[:-1]
