"""A process that does not outlive the one that started it.

`python -m fedcox.deployment.tether MODULE ARGUMENT…` runs MODULE as `python -m MODULE` would,
and ends it, and what it started, as soon as the pipe at its standard input is closed. The
system closes it when the starter ends, however that ends: a hospital that stops
`fedcox center start` by force has no process left that answers questions.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def _end_with_the_starter() -> None:
    while os.read(0, 1):
        pass
    _end_children()
    os._exit(1)


def _end_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    """Run the module named first, tied to whoever holds the other end of the input."""
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
