"""With which versions was a result made? For whoever repeats it."""

from __future__ import annotations

import sys
from importlib.metadata import version

import numpy as np
import scipy


def versions() -> dict[str, str]:
    """Of fedcox, of Python, and of what the numbers come from."""
    return {
        "fedcox": version("fedcox"),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
