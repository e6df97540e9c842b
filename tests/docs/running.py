"""Run what a page says: commands through the real entry point, Python as one program."""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

from fedcox.cli.main import main
from tests.docs.pages import Block, Page

#: Commands of a page that belong to the reader's own machine and are not run here.
_NOT_OURS = ("make ", "git ", "python -m ")


class Reader:
    """Somebody who types a page from top to bottom, in an empty folder."""

    def __init__(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        self._page = page
        self._monkeypatch = monkeypatch
        self._names: dict[str, Any] = {"__name__": page.name}
        self._told: dict[str, str] = {}
        self._last = ""
        self.ran = 0

    def read(self) -> None:
        """Run every block; compare every block that claims to be an output."""
        for block in self._page.blocks:
            if block.remark.startswith("terminal"):
                continue  # tests/docs/test_two_terminals.py
            if block.remark.startswith("minutes"):
                continue  # tests/paper/test_slides.py runs the same steps
            if block.language in ("console", "sh"):
                self._type(block)
            elif block.language == "python":
                self._last = self._execute(block)
            elif block.remark.startswith("output"):
                self._compare(block)

    def _type(self, block: Block) -> None:
        ends = re.fullmatch(r"exit status (\d)", block.remark)
        status = int(ends[1]) if ends else 0
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith("fedcox "):
                self._last = self._command(line, status)
            elif line.strip() and not line.startswith(_NOT_OURS):
                raise AssertionError(f"{self._where(block)}: what is {line!r}?")

    def _command(self, line: str, expected: int = 0) -> str:
        out = io.StringIO()
        self._monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit) as stopped:
            main()
        told = out.getvalue()
        assert (stopped.value.code or 0) == expected, f"{line}\n{told}"
        self.ran += 1
        self._told[line] = told
        return told

    def _execute(self, block: Block) -> str:
        out = io.StringIO()
        # Leading empty lines, so that a traceback names the line of the page.
        program = compile("\n" * block.line + block.text, self._page.name, "exec")
        with redirect_stdout(out):
            exec(program, self._names)
        self.ran += 1
        return out.getvalue()

    def _compare(self, block: Block) -> None:
        """`output` is of the block above, `output: fedcox …` of that command."""
        command = block.remark.removeprefix("output").removeprefix(":").strip()
        told = self._last
        if command:
            told = self._told.get(command) or self._command(command)
        wanted, found = _trimmed(block.text), _trimmed(told)
        assert wanted in found, f"{self._where(block)} is not what is printed now:\n{found}"

    def _where(self, block: Block) -> str:
        return f"{self._page.name}, line {block.line}"


def _trimmed(text: str) -> str:
    """Without spaces at the ends of lines, and without empty lines."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
