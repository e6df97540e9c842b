"""What a study's process does before the first message, so that no round waits for it."""

from __future__ import annotations

import gc

from fedcox.engines.codec.records import declare_all

#: Objects made before the youngest are looked through: a round makes some thousands, and with
#: Python's own seven hundred every round would wait for it.
_YOUNG = 50_000


def make_ready() -> None:
    """Once everything is loaded."""
    declare_all()
    # Else the engine's many objects are looked through in mid-round.
    gc.freeze()
    gc.set_threshold(_YOUNG)
