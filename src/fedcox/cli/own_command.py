"""The command that this process was started with, as one would type it again."""

from __future__ import annotations

import shlex
import sys

_ABOUT_THIS_RUN = ("--overwrite", "--resume")


def own_command(*more: str) -> str:
    """Without what concerned the folder as it was, such as --resume; then `more` words."""
    words = [word for word in sys.argv[1:] if word not in _ABOUT_THIS_RUN]
    return shlex.join(["fedcox", *words, *more])
