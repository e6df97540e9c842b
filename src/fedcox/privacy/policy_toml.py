"""Write a policy as the text of its file, with what every key means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from fedcox.privacy.policy_faults import toml_value

_WIDTH = 96
_HEADER = (
    "What may leave this hospital. Its own center reads this file and refuses what it does not "
    "allow; no coordinator can change it. A key that is left out keeps its default."
)


def policy_text(tables: Mapping[str, BaseModel]) -> str:
    """One TOML table per entry; a key without a value is written as a comment."""
    parts = [_comment(_HEADER)]
    for name, table in tables.items():
        parts.append("\n".join([f"[{name}]", *_lines(table)]))
    return "\n\n".join(parts) + "\n"


def _lines(table: BaseModel) -> Iterator[str]:
    for key, field in type(table).model_fields.items():
        value = getattr(table, key)
        yield _comment(str(field.description))
        yield f"# {key} =" if value is None else f"{key} = {_value(value)}"


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2))


def _value(value: Any) -> str:
    """A list of names that does not fit into a line is written one below the other."""
    text = toml_value(value)
    if len(text) <= _WIDTH // 2 or not isinstance(value, tuple):
        return text
    return "\n".join(["[", *(f"    {toml_value(entry)}," for entry in value), "]"])
