"""Seeds of their own for everything that is drawn, from names and numbers.

What is drawn for one scheme, fold or center depends on its own name alone, so adding another
changes none of its numbers.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np


def derived_seed(seed: int, *names: int | str) -> int:
    """A seed below 2³¹, which every library accepts, for whatever is called by these names.

    >>> derived_seed(0, "folds", 1, "POOL") == derived_seed(0, "folds", 1, "POOL")
    True
    >>> derived_seed(0, "folds", 1, "POOL") == derived_seed(0, "folds", 2, "POOL")
    False
    """
    # A number and its digits as text must differ, and so must ("ab", "c") and ("a", "bc").
    words = [sha256(repr(name).encode()).digest()[:8] for name in names]
    entropy = [seed, *(int.from_bytes(word, "big") for word in words)]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) >> 1


def derived_generator(seed: int, *names: int | str) -> np.random.Generator:
    """The generator of that seed."""
    return np.random.default_rng(derived_seed(seed, *names))
