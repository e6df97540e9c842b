"""A folder as a closed list: the classes that its files define, one file for each topic."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def classes_in(package: str, base: type[Any]) -> tuple[type[Any], ...]:
    """Every class of this base that is no interface, in the order of files and in them."""
    folder = sys.modules[package].__path__
    return tuple(
        kind
        for name in sorted(module.name for module in iter_modules(folder, f"{package}."))
        for kind in vars(import_module(name)).values()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and not inspect.isabstract(kind)
        and kind.__module__ == name
    )
