"""A worked example of CONTRIBUTING, done in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fedcox
from tests.docs.pages import ROOT, page


def done_in_a_copy(
    folder: Path, mark: str, add: Callable[[Path, str], None], program: str
) -> None:
    """`add` puts the page's block that has the mark into a copy of the source; then run.

    No other file of the copy is touched, and the `program` ends with the word "done".
    """
    (block,) = (
        block.text for block in page(ROOT / "CONTRIBUTING.md").blocks if mark in block.text
    )
    copy, source = folder / "fedcox", Path(fedcox.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    add(copy, block)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.strip() == "done", ended.stderr


def new_file(place: str) -> Callable[[Path, str], None]:
    """The block is a file of its own."""

    def add(copy: Path, block: str) -> None:
        assert not (copy / place).exists()
        (copy / place).write_text(block, encoding="utf-8")

    return add
