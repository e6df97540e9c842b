"""What is wrong with a study's keys, in sentences: where, what was found, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedcox.data.wording import did_you_mean, listed
from fedcox.study.study_tables import (
    COVARIATES,
    SOLVERS,
    About,
    Attendance,
    Grid,
    Model,
    Noise,
    Outcome,
    Privacy,
)
from fedcox.study.study_toml import toml_value

PURPOSE = {
    "outcome": "it names the columns of the outcome",
    "covariates": "it lists the covariates, or names columns that hold numbers",
}
TABLES: Mapping[str, type[BaseModel]] = {
    "study": About,
    "outcome": Outcome,
    "grid": Grid,
    "model": Model,
    "privacy": Privacy,
    "attendance": Attendance,
}
TABLE_NAMES = (
    "study",
    "outcome",
    "covariates",
    "grid",
    "model",
    "solver",
    "privacy",
    "attendance",
)

_DESCENT_UNDER_NOISE = (
    '[solver] method = "private" and [privacy.differential]: a study under noise is written '
    "with [privacy.noise] alone, and has intervals. Write epsilon (or price), delta and "
    "patients there, and leave [solver] out."
)
_NEEDED = {
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "too_short": "at least one",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def sentences(error: ValidationError, tables: Mapping[str, Any]) -> list[str]:
    """One sentence per fault, in the order of the file's tables."""
    names = _covariate_names(tables.get("covariates"))
    found: dict[str, None] = {}  # a set that keeps the order
    for details in error.errors(include_url=False, include_context=True):
        details["loc"] = _without_kind_of_noise(details["loc"])
        found[_DESCENT_UNDER_NOISE if _is_old(details) else _sentence(details, names)] = None
    return list(found)


def _is_old(details: ErrorDetails) -> bool:
    """Whether this is of the descent under noise, which had two tables."""
    if details["loc"] == ("solver",):
        return bool(details.get("ctx", {}).get("tag") == "private")
    return details["loc"] == ("privacy", "differential")


def _without_kind_of_noise(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Noise is a table or a word; which of them was read is of no interest to anybody."""
    return (*location[:2], *location[3:]) if location[:2] == ("privacy", "noise") else location


def _covariate_names(covariates: Any) -> list[str]:
    if isinstance(covariates, Mapping | list | tuple):
        return [str(name) for name in covariates]
    return []


def _sentence(details: ErrorDetails, names: Sequence[str]) -> str:
    kind, location = details["type"], details["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(location, names)
    where = _where(location, names)
    if kind == "missing":
        return f"{where}: missing; {_purpose(location)}."
    if kind == "union_tag_not_found":
        return _covariate_without_type(where, names[int(location[1])], details["input"])
    if kind in {"literal_error", "union_tag_invalid"}:
        return _unknown_choice(where, details)
    return f"{where}: found {_shown(details['input'])}; {_needed(details)} is needed."


def _where(location: Sequence[int | str], names: Sequence[str]) -> str:
    """`[outcome] time`, `[covariates] sex levels`, `[solver] tolerance`.

    A location names the kind of covariate or solver between the entry and its key.
    """
    table, *path = location
    if table == "covariates" and path:
        return " ".join([f"[covariates] {names[int(path[0])]}", *map(str, path[2:3])])
    if table == "solver" and path:
        return f"[solver] {path[1]}" if len(path) > 1 else "[solver]"
    if table == "privacy" and len(path) > 1:
        return f"[{table}.{path[0]}] {path[1]}"
    return f"[{table}] {path[0]}" if path else f"[{table}]"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    text = toml_value(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _needed(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if details["loc"][1:2] in {("event_value",), ("censored_value",)}:
        return "a text, a finite number, true or false"
    if kind == "greater_than":
        return f"a number above {context['gt']:g}"
    if kind == "greater_than_equal":
        return f"a number of at least {context['ge']:g}"
    if kind == "less_than":
        return f"a number below {context['lt']:g}"
    if kind == "less_than_equal":
        return f"a number of at most {context['le']:g}"
    return _NEEDED.get(kind, "something else")


def _purpose(location: Sequence[int | str]) -> str:
    if len(location) == 1:
        return PURPOSE[str(location[0])]
    model = _table_at(location)
    description = model.model_fields[str(location[-1])].description
    return f"it is {description}"


def _table_at(location: Sequence[int | str]) -> type[BaseModel]:
    """The table that the key at the end of a location is in."""
    if location[0] == "solver":
        return SOLVERS[str(location[1])]
    if location[0] == "covariates":
        return COVARIATES[str(location[2])]
    if location[0] == "privacy" and len(location) > 2:
        return Noise
    return TABLES[str(location[0])]


def _unknown_choice(where: str, details: ErrorDetails) -> str:
    """A word that is not on a key's list; for solvers and covariates the list of kinds."""
    context = details.get("ctx", {})
    if details["type"] == "literal_error":
        found, expected = details["input"], str(context["expected"])
    else:
        found, expected = context["tag"], str(context["expected_tags"])
        key = str(context["discriminator"]).strip("'")
        where = f"{where} {key}"
    allowed = [word.strip(" '") for word in expected.replace(" or ", ",").split(",")]
    words = listed([f'"{word}"' for word in allowed], joint="or")
    hint = did_you_mean(str(found), allowed)
    return f"{where}: found {_shown(found)}; {words} is needed.{hint}"


def _covariate_without_type(where: str, name: str, settings: Any) -> str:
    dotted = _dotted_name(name, settings)
    if dotted:
        return (
            f"{where}: a dot in a column's name needs quotes, else TOML reads a table in a "
            f'table; write "{dotted}" = {{ type = … }}.'
        )
    return f'{where} type: missing; type = "number" or type = "category" is needed.'


def _dotted_name(name: str, settings: Any) -> str:
    """The column name behind `ph.ecog = {…}`, which TOML takes for a table in a table."""
    inner = [key for key in settings if isinstance(settings[key], Mapping)]
    if not inner or "type" in settings:
        return ""
    dotted = f"{name}.{inner[0]}"
    return _dotted_name(dotted, settings[inner[0]]) or dotted


def _unknown_key(location: Sequence[int | str], names: Sequence[str]) -> str:
    key = str(location[-1])
    allowed = _keys_at(location)
    if len(location) == 1:
        return f"[{key}]: unknown table.{_hint(key, allowed)} The tables are {listed(allowed)}."
    if location[0] == "solver":
        others = [name for name, model in SOLVERS.items() if key in model.model_fields]
        if others:
            return (
                f"[solver] {key}: a setting of {listed(others, joint='or')}, and this study's "
                f"method is {location[1]}, with {listed(allowed)}."
            )
    where = _where(location, names)
    if where.startswith("[privacy]") and key in ("smallest_group", "smallest_tail"):
        return f"{where}: intervals are not joined any more; leave it out."
    return f"{where}: unknown key.{_hint(key, allowed)} The keys here are {listed(allowed)}."


def _keys_at(location: Sequence[int | str]) -> list[str]:
    """The keys allowed where the unknown one stands."""
    if len(location) == 1:
        return list(TABLE_NAMES)
    fields = _table_at(location).model_fields
    return [key for key in fields if location[0] != "covariates" or key != "name"]


def _hint(key: str, allowed: Sequence[str]) -> str:
    """The key or the table that may have been meant."""
    if key in TABLE_NAMES and key not in allowed:
        return (
            f" A line {key} = … belongs at the top of the file, before the first [table]; "
            f"or write a table [{key}]."
        )
    near = did_you_mean(key, allowed)
    if near:
        return near
    homes = [table for table, model in TABLES.items() if key in model.model_fields]
    return f" It belongs in [{homes[0]}]." if homes else ""
