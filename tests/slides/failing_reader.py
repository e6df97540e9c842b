"""A reader that ends before it reads; in a module of its own, which its process imports."""

from __future__ import annotations


def fail_at_once(*_: object) -> None:
    """What a process does that lacks a library."""
    raise SystemExit(3)
