"""Which versions of what the numbers of a run may depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = ("fedcox", "numpy", "scipy", "xgboost", "xgboost-cpu")


def library_versions() -> dict[str, str]:
    """Python's and that of every library that is installed."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
