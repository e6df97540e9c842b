"""The rules of a study that join several keys, each broken one as a sentence.

They look at the tables as given, before and whether or not each key passed for itself, so that
a study with a misspelt key *and* a wrong reference level is told both at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from fedcox.data.spelling import canonical
from fedcox.data.wording import quoted


def broken_rules(tables: Mapping[str, Any]) -> list[str]:
    """Every broken rule of these tables."""
    return [
        *_grid(_table(tables, "grid")),
        *_outcome(_table(tables, "outcome")),
        *_covariates(tables.get("covariates")),
        *_columns(tables),
    ]


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    table = tables.get(name)
    return table if isinstance(table, Mapping) else None


def _grid(grid: Mapping[str, Any] | None) -> Iterator[str]:
    if grid is None:
        return
    given = [key for key in ("width", "times") if grid.get(key) is not None]
    if len(given) != 1:
        found = "both are given" if given else "neither is given"
        yield f'[grid]: {found}; give exactly one of width = 30 or times = "events".'


def _outcome(outcome: Mapping[str, Any] | None) -> Iterator[str]:
    if outcome is None:
        return
    event, censored = outcome.get("event_value", 1), outcome.get("censored_value")
    if not isinstance(event, str | int | float) or not isinstance(censored, str | int | float):
        return
    if canonical(event) == canonical(censored):
        yield "[outcome] censored_value: the same as event_value; they must differ."


def _covariates(covariates: Any) -> Iterator[str]:
    if isinstance(covariates, list | tuple):
        names = Counter(entry for entry in covariates if isinstance(entry, str))
        for name, times in names.items():
            if times > 1:
                yield f"covariates: '{name}' is named {times} times; once is enough."
    if isinstance(covariates, Mapping):
        for name, settings in covariates.items():
            if isinstance(settings, Mapping):
                if "name" in settings:
                    yield f"[covariates] {name} name: unknown key; the column's name is {name}."
                yield from _range(name, settings)
                yield from _levels(name, settings)


def _range(name: str, settings: Mapping[str, Any]) -> Iterator[str]:
    low, high = settings.get("min"), settings.get("max")
    if isinstance(low, Real) and isinstance(high, Real) and low > high:
        yield f"[covariates] {name}: min = {low} lies above max = {high}."


def _levels(name: str, settings: Mapping[str, Any]) -> Iterator[str]:
    levels = settings.get("levels")
    if settings.get("type") != "category" or not isinstance(levels, list | tuple):
        return
    texts = [_as_text(level) for level in levels]
    repeated = [text for text, times in Counter(texts).items() if times > 1]
    if repeated:
        yield f"[covariates] {name} levels: {quoted(repeated)} more than once."
    if len(set(texts)) < 2:
        yield f"[covariates] {name} levels: a category needs at least two different levels."
    reference = settings.get("reference")
    if reference is not None and _as_text(reference) not in texts:
        yield (
            f"[covariates] {name} reference: '{_as_text(reference)}' is not among the levels "
            f"{quoted(texts)}."
        )


def _as_text(level: Any) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _columns(tables: Mapping[str, Any]) -> Iterator[str]:
    """No column may play two parts, in the file or in the design matrix."""
    outcome = _table(tables, "outcome") or {}
    study = _table(tables, "study") or {}
    parts = {
        "[outcome] time": outcome.get("time"),
        "[outcome] event": outcome.get("event"),
        "[study] patient_id": study.get("patient_id"),
    }
    taken: dict[str, str] = {}
    for part, column in parts.items():
        if not isinstance(column, str):
            continue
        if column in taken:
            yield f"{part}: column '{column}' is already {taken[column]}."
        taken.setdefault(column, part)
    for name in dict.fromkeys(_names(tables.get("covariates"))):
        if name in taken:
            yield f"[covariates] {name}: column '{name}' is already {taken[name]}."
    encoded = Counter(_encoded_names(tables.get("covariates")))
    for name, times in encoded.items():
        if times > 1:
            yield (
                f"[covariates]: two columns of the model would be called '{name}', since a "
                "category's level is written column_level; rename a column in the files."
            )


def _names(covariates: Any) -> list[str]:
    if isinstance(covariates, Mapping | list | tuple):
        return [name for name in covariates if isinstance(name, str)]
    return []


def _encoded_names(covariates: Any) -> Iterator[str]:
    if not isinstance(covariates, Mapping):
        return
    for name, settings in covariates.items():
        levels = settings.get("levels") if isinstance(settings, Mapping) else None
        if not isinstance(levels, list | tuple):
            yield name
            continue
        texts = dict.fromkeys(_as_text(level) for level in levels)
        reference = _as_text(settings.get("reference"))
        yield from (f"{name}_{text}" for text in texts if text != reference)
