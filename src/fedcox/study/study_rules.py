"""The rules of a study that join several keys, each broken one as a sentence.

They look at the tables as given, before and whether or not each key passed for itself, so that
a study with a misspelt key *and* a wrong reference level is told both at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from numbers import Real
from typing import Any

from fedcox.data.wording import canonical, listed, quoted
from fedcox.federation.compression import KEEPING, NOT_ADDITIVE
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import MOST_INTERVALS

_DEFAULT_LINK = "log"
_GROUPED = frozenset(name for name, link in LINKS.items() if link.grouped)
#: The fewest centers that a secure sum hides one of.
_FEWEST_MASKED = 3


def broken_rules(tables: Mapping[str, Any]) -> list[str]:
    """Every broken rule of these tables."""
    return [
        *grid_faults(_table(tables, "grid") or {}, _link(tables)),
        *_exact_time(tables),
        *_outcome(_table(tables, "outcome")),
        *_covariates(tables.get("covariates")),
        *_columns(tables),
        *_privacy(_table(tables, "privacy"), _table(tables, "grid")),
        *_noise(tables),
        *_attendance(_table(tables, "attendance"), _table(tables, "privacy")),
        *_compression(_table(tables, "solver"), _table(tables, "privacy")),
    ]


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    table = tables.get(name)
    return table if isinstance(table, Mapping) else None


def _link(tables: Mapping[str, Any]) -> str:
    link = (_table(tables, "model") or {}).get("link", _DEFAULT_LINK)
    return link if isinstance(link, str) else ""


def grid_faults(grid: Mapping[str, Any], link: str = _DEFAULT_LINK) -> Iterator[str]:
    """Every broken rule of the way in which time is divided."""
    given = [key for key in ("pieces", "edges", "width", "times") if grid.get(key) is not None]
    if len(given) > 1:
        yield f"[grid]: {listed(given, joint='and')} are given; give one of them at most."
    if link in _GROUPED:
        for key in ("pieces", "edges"):
            if key in given:
                yield (
                    f'[grid] {key}: goes with link = "log"; link = "{link}" groups time and '
                    'takes width = 30, say, or times = "events".'
                )
        if not given:
            yield (
                f'[grid]: link = "{link}" groups time and needs width = 30, say, or '
                'times = "events".'
            )
    yield from _edges(grid)


def _edges(grid: Mapping[str, Any]) -> Iterator[str]:
    edges = grid.get("edges")
    if not isinstance(edges, list | tuple) or not all(isinstance(edge, Real) for edge in edges):
        return
    if any(edge < 0 for edge in edges):
        yield "[grid] edges: none may lie below zero."
    if any(after <= before for before, after in pairwise(edges)):
        yield "[grid] edges: they must increase, each above the one before."
    if not any(edge > 0 for edge in edges):
        yield "[grid] edges: at least one above zero is needed."
    if len(edges) > MOST_INTERVALS:
        yield f"[grid] edges: {len(edges):,} are more than {MOST_INTERVALS:,}."
    if grid.get("horizon") is not None:
        yield "[grid] horizon: the last of the edges is the horizon; leave one of them out."


def _exact_time(tables: Mapping[str, Any]) -> Iterator[str]:
    """Keys that join or read intervals of grouped time, where time is exact."""
    model = _table(tables, "model") or {}
    if model.get("df") is not None and model.get("baseline") != "spline":
        yield '[model] df: the numbers of baseline = "spline"; name it, or leave df out.'
    if _link(tables) in _GROUPED:
        if model.get("baseline") == "spline":
            yield '[model] baseline: "spline" goes with link = "log".'
        if (_table(tables, "outcome") or {}).get("resolution") is not None:
            yield (
                "[outcome] resolution: says where inside an interval an event was, which "
                f'link = "{_link(tables)}" does not ask; leave it out, or take link = "log".'
            )
        return
    if model.get("censored_interval", "include") != "include":
        yield (
            "[model] censored_interval: matters for the grouped links alone; leave it out, or "
            'name link = "cloglog".'
        )


def _privacy(
    privacy: Mapping[str, Any] | None, grid: Mapping[str, Any] | None
) -> Iterator[str]:
    if privacy is None or grid is None or grid.get("times") is None:
        return
    if privacy.get("secure_sums"):
        yield (
            '[privacy] secure_sums: times = "events" asks for every patient\'s event time; '
            "leave it out, or give [grid] width."
        )


def _attendance(
    attendance: Mapping[str, Any] | None, privacy: Mapping[str, Any] | None
) -> Iterator[str]:
    needed = (attendance or {}).get("needed")
    masked = (privacy or {}).get("secure_sums") is True
    if masked and isinstance(needed, int) and needed < _FEWEST_MASKED:
        yield (
            f"[attendance] needed: {_centers(needed)} too few for [privacy] secure_sums: of "
            f"two each would learn the other's numbers. Give {_FEWEST_MASKED} or more."
        )


def _compression(
    solver: Mapping[str, Any] | None, privacy: Mapping[str, Any] | None
) -> Iterator[str]:
    if solver is None or solver.get("method") != "adam":
        return
    name, keep = solver.get("compression", "none"), solver.get("keep")
    if keep is not None and name not in KEEPING:
        words = listed([f'"{kind}"' for kind in KEEPING], joint="or")
        yield (
            f"[solver] keep: the share of entries that compression = {words} sends; leave it "
            "out, or choose one of these."
        )
    if isinstance(keep, int | float) and keep > 1:
        yield f"[solver] keep: found {keep}; a share of at most 1 is needed."
    reason = NOT_ADDITIVE.get(name) if isinstance(name, str) else None
    if (privacy or {}).get("secure_sums") is True and reason is not None:
        yield (
            f'[solver] compression: "{name}" does not go with [privacy] secure_sums: '
            f'{reason}. Take "random-k", whose replies add, or "none".'
        )


def _noise(tables: Mapping[str, Any]) -> Iterator[str]:
    """Nothing is asked of patients but noised sums, and of one model alone."""
    privacy = _table(tables, "privacy") or {}
    noise = _table(privacy, "noise")
    if noise is None:
        return
    if noise.get("epsilon") is not None and noise.get("price") is not None:
        yield "[privacy.noise]: epsilon and price are given; one follows from the other."
    patients, events = noise.get("patients"), noise.get("events")
    if isinstance(patients, int) and isinstance(events, int) and events > patients:
        yield f"[privacy.noise] events: {events} are more than the {patients} patients."
    yield from _bounded_model(tables)
    yield from _known_ranges(tables)


def missing_for_noise(tables: Mapping[str, Any]) -> list[str]:
    """What a study without noise would have to name for it, a sentence each."""
    privacy = dict(_table(tables, "privacy") or {}) | {"noise": {"patients": 1}}
    return [
        "[privacy.noise] patients: about how many patients take part in all centers, a public "
        "number; noise then adds about 5 % to the standard errors.",
        *_noise({**tables, "privacy": privacy}),
        'Or [privacy] noise = "none": exact sums, from which patients may be computed. They '
        "leave a hospital only where its own policy says exact_sums = true.",
    ]


def _centers(number: int) -> str:
    return "one center is" if number == 1 else f"{number} centers are"


def masked_faults(centers: int) -> list[str]:
    """Why so few centers have no secure sums."""
    if centers >= _FEWEST_MASKED:
        return []
    return [
        f"[privacy] secure_sums: {_centers(centers)} too few: of two each would learn the "
        "other's numbers. Two hospitals may use noise alone: secure_sums = false, and each "
        "adds its own."
    ]


def _bounded_model(tables: Mapping[str, Any]) -> Iterator[str]:
    """What is fitted under noise, and what of it must be known without asking."""
    grid, model = _table(tables, "grid") or {}, _table(tables, "model") or {}
    if _link(tables) in _GROUPED:
        yield f'[model] link: "{_link(tables)}" is not fitted under noise; take "log".'
    if grid.get("edges") is None and grid.get("horizon") is None:
        yield "[grid] horizon: needed, since patients are not asked for it under noise."
    if grid.get("times") is not None:
        yield '[grid] times: "events" are single patients\' times; leave it out under noise.'
    if (_table(tables, "solver") or {}).get("method", "newton") != "newton":
        yield "[solver] method: under noise the fit has its own way; leave [solver] out."
    if model.get("ridge"):
        yield "[model] ridge: not with noise; leave it out."
    if model.get("missing") == "mean":
        yield ('[model] missing: "mean" is not known under noise; take "drop", or "refuse".')


def _known_ranges(tables: Mapping[str, Any]) -> Iterator[str]:
    if (_table(tables, "model") or {}).get("baseline") == "spline":
        yield '[model] baseline: "spline" is not fitted under noise; leave it out.'
    covariates = tables.get("covariates")
    if isinstance(covariates, Mapping):
        ranges = {
            name: table for name, table in covariates.items() if isinstance(table, Mapping)
        }
    else:
        ranges = {name: {} for name in _names(covariates)}
    for name, settings in ranges.items():
        if settings.get("type", "number") == "number" and not {"min", "max"} <= set(settings):
            yield (
                f"[covariates] {name}: min and max are needed, since patients are not asked "
                "for their mean and spread under noise."
            )


def _outcome(outcome: Mapping[str, Any] | None) -> Iterator[str]:
    if outcome is None:
        return
    yield from _range("[outcome]", outcome)
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
                yield from _range(f"[covariates] {name}", settings)
                yield from _levels(name, settings)


def _range(where: str, settings: Mapping[str, Any]) -> Iterator[str]:
    low, high = settings.get("min"), settings.get("max")
    if isinstance(low, Real) and isinstance(high, Real) and low > high:
        yield f"{where}: min = {low} lies above max = {high}."


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
