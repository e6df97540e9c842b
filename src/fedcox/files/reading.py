"""A file that somebody else wrote: TOML, and whether the machine can hold what it declares."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from fedcox.errors import InputError


def read_toml(path: str | Path, *, kind: str, error: type[InputError]) -> str:
    """The text of a file in UTF-8; `kind` is what the file is called in errors."""
    file = Path(path)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise error(f"{file}: there is no such {kind} file.") from None
    except IsADirectoryError:
        raise error(f"{file}: this is a folder; a {kind} is one TOML file.") from None
    except UnicodeDecodeError as cause:
        raise error(
            f"{file}: this {kind} file is not UTF-8 text (byte {cause.start + 1}).",
            ["Save it with the encoding UTF-8."],
        ) from None
    except OSError as cause:
        raise error(f"{file}: this {kind} file cannot be read: {cause.strerror}.") from None


def parse_toml(text: str, *, source: str, error: type[InputError]) -> dict[str, Any]:
    """The tables of a TOML text; `source` names it in errors."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise error(f"{source}: this is not valid TOML.", [f"{cause}."]) from None


#: Where Linux says what a container may hold, in its second and its first version.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@cache
def machine_bytes() -> int | None:
    """Memory of the machine, or of the container it is; None where the system does not say."""
    try:
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        sizes = []
    for file in _LIMITS:
        try:
            sizes.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):  # another system, or "max"
            continue
    return min(sizes, default=None)


def too_large_fault(declared: int) -> str | None:
    """What to say of so many bytes where the machine has fewer; None where it has them."""
    limit = machine_bytes()
    if limit is None or declared <= limit:
        return None
    return (
        f"It declares {declared / 2**30:,.1f} GiB of data, and this machine has "
        f"{limit / 2**30:,.1f} GiB of memory. It is damaged, or for a larger machine."
    )
