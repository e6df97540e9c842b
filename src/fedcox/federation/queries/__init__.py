"""All that a hospital may be asked: this folder is the closed list, one file for each query.

A new file is a new query: its class says what leaves a hospital, and everything else follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery
from fedcox.files.classes import classes_in


@cache
def all_queries() -> tuple[type[AbstractQuery[Any]], ...]:
    """Every class of queries in this folder, in the order of files and of classes in them."""
    return classes_in(__name__, AbstractQuery)


@cache
def may_travel() -> tuple[type[AbstractQuery[Any]], ...]:
    """Those that are asked between hospitals: all that are no experiment."""
    return tuple(kind for kind in all_queries() if not kind.experimental)


@cache
def words_of_queries() -> Mapping[str, str]:
    """What leaves a hospital, in words, by every name that a query may have."""
    return {name: words for kind in all_queries() for name, words in kind.names().items()}


@cache
def patient_level() -> frozenset[str]:
    """Names of queries whose answers are of single patients, and no sums over them."""
    of_patients = (kind.names() for kind in all_queries() if kind.patient_level)
    return frozenset(name for names in of_patients for name in names)


@cache
def answered_by_default() -> tuple[str, ...]:
    """Names of what a hospital answers unless its policy says otherwise."""
    # Under noise a sample is as safe as everybody; without it, it is fewer patients.
    usual = (
        name
        for kind in may_travel()
        if kind.by_default
        for name in (kind.names() if issubclass(kind, AbstractPrivateQuery) else kind.words)
        if name not in kind.only_if_named
    )
    return tuple(dict.fromkeys(usual))


@cache
def answered_if_named() -> tuple[str, ...]:
    """Names of all others, which a hospital answers where its policy has them.

    Those about some of the patients, as "gradient of a batch", are such names too.
    """
    return tuple(
        name
        for kind in may_travel()
        for name in kind.words
        if not kind.by_default or name in kind.only_if_named
    )
