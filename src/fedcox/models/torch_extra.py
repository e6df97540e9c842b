"""Is torch there? It comes with an extra, and what needs it says so before it imports it."""

from __future__ import annotations

from fedcox.errors import needs_extra


def check_torch() -> None:
    """Raise, with what to install, where torch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise needs_extra("torch", "deep") from error
