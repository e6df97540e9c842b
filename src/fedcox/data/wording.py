"""How values are spelt, and how faults are put in words: counts, columns, places; no values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

#: A count below this would speak of a few patients.
SMALL_CELL = 5

_SHOWN_NAMES = 30
_SHOWN_PLACES = 5
Value = str | int | float | bool
# What exports write into a cell without a value: R, SAS, Excel, pandas, SQL.
MISSING_MARKS = frozenset(
    {"", ".", "na", "n/a", "nan", "-nan", "nat", "null", "none", "<na>", "#n/a", "#na"}
)
_TRUTH = {"true": "1", "false": "0"}
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_ANY_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Digits in groups of three, with or without decimals behind another mark.
_THOUSANDS = re.compile(
    r"[+-]?[1-9][0-9]{0,2}(?P<mark>[,. '’\u00a0\u2009\u202f])[0-9]{3}"
    r"(?:(?P=mark)[0-9]{3})*(?:(?!(?P=mark))[.,][0-9]+)?"
)
# 2019-03-14, 14.03.2019, 3/14/19, 14MAR2019, 14 March 2019 or March 14, 2019; or with a time.
_DATE = re.compile(
    r"(?:[0-9]{4}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)[0-9]{1,2}"
    r"|[0-9]{1,2}(?P<other>[-/.])[0-9]{1,2}(?P=other)(?:[0-9]{4}|[0-9]{2})"
    r"|[0-9]{1,2}[-/. ]*[^\W\d_]{3,9}[-/., ]*(?:[0-9]{4}|[0-9]{2})"
    r"|[^\W\d_]{3,9}[-/. ]*[0-9]{1,2}[-/, ]+[0-9]{4})"
    r"(?:[T ,]+[0-9]{1,2}:[0-9]{2}.*)?"
)


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


def canonical(value: Value) -> str:
    """The one spelling that stands for all spellings of a value.

    A status column can hold 1, 1.0, "1", "1.0", True or "TRUE" for one and the same thing,
    depending on who wrote the file. "01" is a code of its own and stays apart from "1".

    >>> canonical("1.0"), canonical(True), canonical("TRUE"), canonical("01"), canonical("II")
    ('1', '1', '1', '01', 'II')
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    text = str(value).strip()
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if not _PLAIN_NUMBER.fullmatch(text):
        return text
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return "0" if number == "-0" else number


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().lower() in MISSING_MARKS


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point, or a whole number."""
    return _ANY_NUMBER.fullmatch(text.strip()) is not None


def is_date(text: str) -> bool:
    """Whether a text is a day of the calendar, in one of its usual spellings.

    >>> [is_date(text) for text in ("2019-03-14", "14.3.19", "14MAR2019", "1.022", "12 mg")]
    [True, True, True, False, False]
    """
    return _DATE.fullmatch(text.strip()) is not None


def has_thousands(text: str) -> bool:
    """Whether a text is a number with a mark between thousands; "1,022" may be a decimal too.

    >>> [has_thousands(text) for text in ("1,022", "1 022.5", "1'022'000", "0,512", "10,22")]
    [True, True, True, False, False]
    """
    return _THOUSANDS.fullmatch(text.strip()) is not None
