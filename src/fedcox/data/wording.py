"""How faults are put in words: counts, column names, places; never a patient's value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from fedcox.data.spelling import is_number

#: A count below this would speak of a few patients.
SMALL_CELL = 5

_SHOWN_NAMES = 30
_SHOWN_PLACES = 5


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 patient`, `3 patients`, `2,000 patients`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], *, joint: str = "and") -> str:
    """`a, b and c`."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} {joint} {last}" if first else last


def quoted(names: Iterable[str], *, joint: str = "and") -> str:
    """`'a', 'b' and 'c'`, cut off where the list grows long."""
    all_names = [f"'{name}'" for name in names]
    if len(all_names) <= _SHOWN_NAMES:
        return listed(all_names, joint=joint)
    rest = len(all_names) - _SHOWN_NAMES
    return f"{', '.join(all_names[:_SHOWN_NAMES])} and {rest} more"


def did_you_mean(name: str, candidates: Sequence[str]) -> str:
    """` Did you mean 'age'?`, or nothing where no candidate is near."""
    plain = {_plain(candidate): candidate for candidate in reversed(candidates)}
    near = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return f" Did you mean '{plain[near[0]]}'?" if near else ""


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum()) or name


def places(numbers: Sequence[int], *, noun: str) -> str:
    """`line 4` or `lines 4, 9, 12, 40, 41, …`."""
    shown = ", ".join(str(number) for number in numbers[:_SHOWN_PLACES])
    rest = ", …" if len(numbers) > _SHOWN_PLACES else ""
    return f"{noun if len(numbers) == 1 else noun + 's'} {shown}{rest}"


def seem_values(names: Sequence[str]) -> bool:
    """Whether these column names look like a patient: a number, a date, a line break in one.

    A file without a header line has a patient's values where the names should be, and a
    follow-up time among them.
    """
    return any(
        is_number(name) or "\n" in name or not any(letter.isalpha() for letter in name)
        for name in names
        if name
    )


def columns_there(names: Sequence[str]) -> str:
    """Which columns a table has; silent where its first line seems to be a patient."""
    if not names:
        return "There are no columns at all."
    if seem_values(names):
        return (
            f"There are {counted(len(names), 'column')}, some with a number for a name: "
            "the first line must hold the columns' names."
        )
    return f"The columns there are {quoted(name for name in names if name)}."
