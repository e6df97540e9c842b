"""Two terminals side by side, typed into as a page says: real shells, real processes."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

_PROMPT = "ready> "
#: Seconds on a busy machine; nothing takes as long when all is well.
_PATIENCE = 120.0


class Terminal:
    """A shell in a terminal of its own, and all that was shown in it."""

    def __init__(self, folder: Path) -> None:
        self.shown = ""
        self._end, shell_end = os.openpty()
        commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        plain = {"TERM": "dumb", "COLUMNS": "120", "NO_COLOR": "1", "PS1": _PROMPT}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=shell_end,
            stdout=shell_end,
            stderr=shell_end,
            cwd=folder,
            env={**os.environ, **plain, "PATH": commands},
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(shell_end)
        self.wait_for(_PROMPT)

    def close(self) -> None:
        """Close the window: whatever still runs in it hears so."""
        os.close(self._end)
        try:
            self._shell.wait(5.0)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()

    def type(self, line: str) -> int:
        """Type a line; the place in `shown` where its output begins."""
        begin = len(self.shown)
        os.write(self._end, f"{line}\n".encode())
        return begin

    def command(self, line: str) -> str:
        """Type a command and wait for the next prompt; what was shown in between."""
        begin = self.type(line)
        self.wait_for(line.rstrip(), begin)
        return self.wait_for(f"\n{_PROMPT}", begin)

    def answer(self, line: str) -> None:
        """Type what a command asked for, and wait for its end."""
        begin = self.type(line)
        self.wait_for(f"\n{_PROMPT}", begin)

    def wait_for(self, text: str, begin: int = 0) -> str:
        """Read until this is shown."""
        deadline = time.monotonic() + _PATIENCE
        while text not in self.shown[begin:]:
            ready, _, _ = select.select([self._end], [], [], 1.0)
            if ready:
                read = os.read(self._end, 65536).decode("utf-8", "replace")
                self.shown += _plain(read)
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not shown:\n{self.shown[begin:]}")
        return self.shown[begin:]


def _own_terminal() -> None:
    """The shell's first file becomes the terminal that its jobs are controlled by."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")
