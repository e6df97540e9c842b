"""Fewer than all messages look like noise, and are not when the masks are taken away."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from fedcox.privacy import masks
from fedcox.privacy.fixed_point import UIntArray, encode
from tests.privacy.secure_sum_examples import (
    Hospitals,
    all_masked,
    masked_vector,
    plain_sum,
    true_seed,
    without_self_mask,
)


def looks_uniform(seen: UIntArray, truth: UIntArray) -> bool:
    """Whether bytes are evenly spread and nothing follows the true values (rounds, numbers)."""
    counts = np.bincount(seen.ravel().view(np.uint8), minlength=256)
    spread = chisquare(counts).pvalue > 1e-9
    known, observed = (part.ravel().view(np.int64).astype(np.float64) for part in (truth, seen))
    correlation = np.corrcoef(known, observed)[0, 1]
    return bool(spread and abs(correlation) * np.sqrt(known.size) < 6)


def subset_sums(rounds: int = 36, number: int = 4) -> dict[int, tuple[UIntArray, UIntArray]]:
    """Per size of subset: sums of that many centers' messages, and what they should hide.

    The attacker knows every self mask, as it does once a sum is released, and sees the same
    kind of values each time: small numbers in fixed point.
    """
    hospitals = Hospitals(number).ready()
    rng = np.random.default_rng(3)
    found: dict[int, list[tuple[UIntArray, UIntArray]]] = {n: [] for n in range(1, number + 1)}
    for round_number in range(1, rounds + 1):
        vectors = {name: encode(rng.normal(size=60), 32, number) for name in hospitals.names}
        all_masked(hospitals, vectors, round_number)
        opened = {}
        for name in hospitals.names:
            # Masks are streams, so that the check number at the end may be left out.
            seen = masked_vector(hospitals.masked[round_number, name])
            opened[name] = without_self_mask(seen, true_seed(hospitals.parties[name]))
        for size, pairs in found.items():
            # One subset in each round, in turn: those of one round depend on each other.
            subsets = list(combinations(hospitals.names, size))
            subset = subsets[round_number % len(subsets)]
            pairs.append((plain_sum(opened, subset), plain_sum(vectors, subset)))
    return {
        size: (np.stack([seen for seen, _ in pairs]), np.stack([truth for _, truth in pairs]))
        for size, pairs in found.items()
    }


def test_the_sum_of_any_proper_subset_looks_uniform_and_that_of_all_is_the_sum() -> None:
    sums = subset_sums()
    seen, truth = sums.pop(4)
    np.testing.assert_array_equal(seen, truth)
    assert not looks_uniform(seen, truth)
    for seen, truth in sums.values():
        assert looks_uniform(seen, truth)


def test_without_masks_no_subset_looks_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    def zero(key: bytes, zeros: bytes, out: UIntArray) -> None:
        out[:] = 0

    monkeypatch.setattr(masks, "keystream", zero)
    for seen, truth in subset_sums().values():
        assert not looks_uniform(seen, truth)


def test_before_the_release_even_the_sum_of_all_looks_uniform() -> None:
    hospitals = Hospitals(3).ready()
    seen, truth = [], []
    for round_number in range(1, 60):
        vectors = {name: encode(np.arange(90.0), 32, 3) for name in hospitals.names}
        all_masked(hospitals, vectors, round_number)
        sent = {
            name: masked_vector(hospitals.masked[round_number, name])
            for name in hospitals.names
        }
        seen.append(plain_sum(sent, hospitals.names))
        truth.append(plain_sum(vectors, hospitals.names))
    assert looks_uniform(np.stack(seen), np.stack(truth))
