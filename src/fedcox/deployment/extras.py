"""Packages that not everybody has, loaded late, or words on how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedcox.errors import InputError


def flare_module(name: str) -> Any:
    """A module of NVFLARE by its full name; the package has no types."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            "Running a study between hospitals needs the package 'nvflare' 2.9, "
            "which is not installed.",
            ['Install it with: pip install "fedcox[federated]"'],
        ) from error


def need_cryptography() -> None:
    """Say how to install what certificates need, where it is missing."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Certificates need the package 'cryptography', which is not installed.",
            ['Install it with: pip install "fedcox[federated]"'],
        ) from error
