"""The learning schemes by name: one file each."""

from __future__ import annotations

from fedcox.evaluation.scheme import AbstractScheme

#: In the order of tables and figures.
_ALL: tuple[AbstractScheme, ...] = ()

SCHEMES: dict[str, AbstractScheme] = {scheme.name: scheme for scheme in _ALL}
