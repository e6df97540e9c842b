"""A secret in shares: enough centers together recover it, fewer learn nothing.

Shamir's scheme: the secret is the value at zero of a random polynomial of degree
`threshold` − 1, and a share is the value at another place. With fewer shares than the
threshold every secret is equally likely.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from fedcox.errors import SecureSumError

SECRET_BYTES = 32
SHARE_BYTES = 66
_PRIME = 2**521 - 1  # a Mersenne prime, above every secret of 32 bytes


def split(secret: bytes, places: Sequence[int], threshold: int) -> dict[int, bytes]:
    """One share for each place: distinct whole numbers from 1 on."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"A secret has {SECRET_BYTES} bytes.")
    if not 1 <= threshold <= len(places):
        raise ValueError("The threshold lies between one and the number of shares.")
    if len(set(places)) != len(places) or min(places) < 1 or max(places) >= _PRIME:
        raise ValueError("Places are distinct and start at one: the secret lies at zero.")
    coefficients = [int.from_bytes(secret)]
    coefficients += [secrets.randbelow(_PRIME) for _ in range(threshold - 1)]
    return {place: _value(coefficients, place).to_bytes(SHARE_BYTES) for place in places}


def join(shares: Mapping[int, bytes]) -> bytes:
    """Recover the secret from at least `threshold` shares by place.

    Too few or altered shares give a wrong secret, or none (SecureSumError): whoever relies on
    it compares it with a digest of the right one.
    """
    total = 0
    for place, share in shares.items():
        numerator, denominator = 1, 1
        for other in shares:
            if other != place:
                numerator = numerator * other % _PRIME
                denominator = denominator * (other - place) % _PRIME
        weight = numerator * pow(denominator, -1, _PRIME)
        total = (total + int.from_bytes(share) * weight) % _PRIME
    if total >= 2 ** (8 * SECRET_BYTES):
        raise SecureSumError("These shares do not belong together: they give no secret.")
    return total.to_bytes(SECRET_BYTES)


def _value(coefficients: Sequence[int], place: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % _PRIME
    return value
