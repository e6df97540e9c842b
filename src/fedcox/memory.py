"""What the machine can hold: a file that declares more is refused before it is read.

A few bytes can declare any size, in a header or by compression. Whoever made the room first
and read then would be ended by the system, without a word.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

#: Where Linux says what a container may hold, in its second and its first version.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@cache
def machine_bytes() -> int | None:
    """Memory of the machine, or of the container it is; None where the system does not say."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        found = []
    for file in _LIMITS:
        try:
            found.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):  # another system, or "max"
            continue
    return min(found, default=None)


def too_large_fault(declared: int) -> str | None:
    """What to say of so many bytes where the machine has fewer; None where it has them."""
    limit = machine_bytes()
    if limit is None or declared <= limit:
        return None
    return (
        f"It declares {declared / 2**30:,.1f} GiB of data, and this machine has "
        f"{limit / 2**30:,.1f} GiB of memory. It is damaged, or for a larger machine."
    )
