"""When two ways of writing a value mean the same.

A status column can hold 1, 1.0, "1", "1.0", True or "TRUE" for one and the same thing,
depending on who wrote the file. "01" is a code of its own and stays apart from "1".
"""

from __future__ import annotations

import re

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


def canonical(value: Value) -> str:
    """The one spelling that stands for all spellings of a value.

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
