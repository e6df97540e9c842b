"""Enough shares give the secret back; fewer give nothing."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedcox.errors import SecureSumError
from fedcox.privacy import ciphers as shamir
from fedcox.privacy.ciphers import SECRET_BYTES, SHARE_BYTES, join, split

secrets_drawn = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)


@given(data=st.data(), secret=secrets_drawn, number=st.integers(1, 12))
def test_any_shares_from_the_threshold_on_give_the_secret(
    data: Any, secret: bytes, number: int
) -> None:
    places = data.draw(
        st.lists(st.integers(1, 60), min_size=number, max_size=number, unique=True)
    )
    threshold = data.draw(st.integers(1, number))
    shares = split(secret, places, threshold)
    assert all(len(share) == SHARE_BYTES for share in shares.values())
    chosen = data.draw(
        st.lists(st.sampled_from(places), min_size=threshold, unique=True, max_size=number)
    )
    assert join({place: shares[place] for place in chosen}) == secret


def test_fewer_shares_than_the_threshold_give_no_secret() -> None:
    secret = bytes(range(SECRET_BYTES))
    shares = split(secret, range(1, 8), 4)
    for places in combinations(shares, 3):
        # A wrong value is a secret at all with probability 2^-265.
        with pytest.raises(SecureSumError, match="do not belong together"):
            join({place: shares[place] for place in places})


def test_one_share_too_few_is_as_likely_for_every_secret() -> None:
    """Last bytes of two shares of three: uniform, whatever the secret."""
    for secret in (bytes(SECRET_BYTES), b"\xff" * SECRET_BYTES):
        drawn = [split(secret, (1, 2, 3), 3) for _ in range(6000)]
        for place in (1, 2):
            seen = np.bincount([shares[place][-1] for shares in drawn], minlength=256)
            assert chisquare(seen).pvalue > 1e-7
        both = [shares[1][-1] ^ shares[2][-1] for shares in drawn]
        assert chisquare(np.bincount(both, minlength=256)).pvalue > 1e-7


def test_an_altered_share_does_not_give_the_secret() -> None:
    secret = bytes(range(SECRET_BYTES))
    shares = split(secret, (1, 2, 3), 2)
    low, high = (bytearray(shares[2]) for _ in range(2))
    low[-1] ^= 1
    high[10] ^= 1
    assert join({1: shares[1], 2: bytes(low)}) != secret
    with pytest.raises(SecureSumError, match="do not belong together"):
        join({1: shares[1], 2: bytes(high)})


def test_the_field_is_one_by_lucas_and_lehmer() -> None:
    exponent = shamir._PRIME.bit_length()
    assert 2**exponent - 1 == shamir._PRIME
    rest = 4
    for _ in range(exponent - 2):
        rest = (rest * rest - 2) % shamir._PRIME
    assert rest == 0


@pytest.mark.parametrize(
    ("secret", "places", "threshold"),
    [
        (b"short", (1, 2, 3), 2),
        (bytes(SECRET_BYTES), (1, 2, 3), 4),
        (bytes(SECRET_BYTES), (1, 2, 3), 0),
        (bytes(SECRET_BYTES), (0, 1, 2), 2),  # at zero lies the secret itself
        (bytes(SECRET_BYTES), (1, 1, 2), 2),
    ],
)
def test_shares_that_would_give_the_secret_away_or_lose_it_are_not_made(
    secret: bytes, places: tuple[int, ...], threshold: int
) -> None:
    with pytest.raises(ValueError, match=r"secret|threshold|Places"):
        split(secret, places, threshold)
