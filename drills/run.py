"""`python -m drills.run`: every drill, with real processes; what held is printed.

Takes some minutes. `python -m drills.run NAME…` runs only those named. Studies are under
secure sums and noise; with `--exact` sums are exact, and results are compared bit for bit.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from drills.faults import DRILLS, PAID, Drill, Log
from drills.federation import NAMES, DrillError, Federation
from fedcox.deployment import processes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drills; the exit status says whether all held."""
    # A shell in the background lets its children ignore Ctrl-C, which drills send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = {drill.__name__: drill for drill in DRILLS}
    parser = argparse.ArgumentParser(prog="python -m drills.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--exact", action="store_true", help="neither masks nor noise")
    given = parser.parse_args(arguments)
    names = given.names or [name for name in known if not (given.exact and name in PAID)]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"there is no drill {', '.join(unknown)}; there are {', '.join(known)}")
    _write(
        f"fedcox {version('fedcox')}, nvflare {version('nvflare')}, "
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    )
    failed = []
    with (
        processes.ended_in_order(),  # so that no process is left when this one is told to end
        tempfile.TemporaryDirectory() as place,
        Federation(Path(place), exact=given.exact).running() as all_,
    ):
        all_.make()
        all_.start_server()
        for name in NAMES:
            all_.start_center(name)
        for name in names:
            if not _held(known[name], all_):
                failed.append(name)
    _write(f"\n{len(names) - len(failed)} of {len(names)} drills held.")
    return 1 if failed else 0


def _held(drill: Drill, federation: Federation) -> bool:
    _write(f"\n{drill.__name__}: {drill.__doc__}")
    try:
        federation.make_whole()
        drill(federation, Log(_write))
    except DrillError as error:
        _write(str(error))
        return False
    return True


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
