"""Text of other people as it may be shown on a terminal.

A terminal obeys some characters: who may choose a study's name could wipe out the lines about
what the study asks, and write others in their place.
"""

from __future__ import annotations


def shown(text: str) -> str:
    """One line in which what cannot be printed stands by its number."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)
