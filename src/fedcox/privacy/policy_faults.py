"""What is wrong with the keys of a policy? Sentences: where, what was found, what is needed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_LONGEST_SHOWN = 60


def sentences(error: ValidationError, tables: Mapping[str, type[BaseModel]]) -> list[str]:
    """One sentence for each fault, in the order of the tables."""
    found = error.errors(include_url=False, include_context=True)
    return list(dict.fromkeys(_sentence(details, tables) for details in found))


def broken_rules(given: Mapping[str, Any]) -> Iterator[str]:
    """Rules that join several keys, looked at whether or not each key passed for itself."""
    noise = given.get("differential_privacy")
    if not isinstance(noise, Mapping):
        return
    missing = [key for key in ("epsilon", "delta") if noise.get(key) is None]
    if len(missing) == 1:
        other = "delta" if missing == ["epsilon"] else "epsilon"
        yield f"[differential_privacy] {missing[0]}: missing; {other} alone is no limit."
    elif missing and noise.get("required") is True:
        yield (
            "[differential_privacy] required: found true without epsilon and delta; any noise "
            "would pass, however little. Set both."
        )


def _sentence(details: ErrorDetails, tables: Mapping[str, type[BaseModel]]) -> str:
    kind, location = details["type"], [str(part) for part in details["loc"]]
    if kind == "extra_forbidden":
        return _unknown(location, tables)
    where = " ".join([f"[{location[0]}]", *location[1:2]])
    needed = "a table" if kind.startswith("model") else _needed(details)
    return f"{where}: found {shown(details['input'])}; {needed} is needed."


def _needed(details: ErrorDetails) -> str:
    return str(details.get("ctx", {}).get("needed", "something else"))


def _unknown(location: Sequence[str], tables: Mapping[str, type[BaseModel]]) -> str:
    key = location[-1]
    if len(location) == 1:
        hint = _near(key, list(tables)) or _home(key, tables)
        return f"[{key}]: unknown table.{hint} The tables are {listed(tables)}."
    allowed = list(tables[location[0]].model_fields)
    hint = _near(key, allowed) or _home(key, tables)
    return f"[{location[0]}] {key}: unknown key.{hint} The keys here are {listed(allowed)}."


def _near(name: str, candidates: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def _home(key: str, tables: Mapping[str, type[BaseModel]]) -> str:
    homes = [f"[{name}]" for name, table in tables.items() if key in table.model_fields]
    return f" It belongs in {listed(homes, joint='or')}." if homes else ""


def listed(names: Sequence[str] | Mapping[str, Any], *, joint: str = "and") -> str:
    """`a, b and c`."""
    *first, last = list(names) or ["nothing"]
    return f"{', '.join(first)} {joint} {last}" if first else last


def shown(value: Any) -> str:
    """A value of the file as TOML has it, cut off where it grows long."""
    if isinstance(value, Mapping):
        return "a table"
    text = toml_value(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def toml_value(value: Any) -> str:
    """A value as TOML writes it; a whole number without its decimal point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, str):
        # A JSON string is a TOML basic string but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    return str(value)
