"""Text of other people as it may be shown on a terminal.

A terminal obeys some characters: who may choose a study's name, a column's or a file's could
wipe out the lines about what is asked, and write others in their place.
"""

from __future__ import annotations

import unicodedata


def shown(text: str) -> str:
    """One line in which what cannot be printed stands by its number."""
    return text if text.isprintable() else "".join(map(_shown, text))


def shown_lines(text: str) -> str:
    """The same of several lines."""
    return "\n".join(shown(line) for line in text.split("\n"))


def _shown(sign: str) -> str:
    # Python counts all spaces but the usual one as not to be printed.
    if sign.isprintable() or unicodedata.category(sign) == "Zs":
        return sign
    return f"\\u{ord(sign):04x}"
