"""`python -m fedcox.deployment.guarded_job …`: a study's process at a hospital, guarded.

Takes the arguments of `nvflare.private.fed.app.client.worker_process`, which the engine's
client gives it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedcox.deployment.extras import flare_module
from fedcox.deployment.guard import guard_job

#: Where the engine's client looks for how a job's process ended.
OUTCOME = "_process_rc.txt"


def main() -> None:
    """Guard this process, then be the engine's job process until it ends."""
    guard_job()
    engine = flare_module("nvflare.private.fed.app.client.worker_process")
    monitor = flare_module("nvflare.fuel.f3.mpm").MainProcessMonitor
    args = engine.parse_arguments()
    place = Path(args.workspace) / args.job_id
    sys.exit(
        monitor.run(
            main_func=_missed_by_nobody(engine.main, place / OUTCOME),
            run_dir=str(place),
            shutdown_grace_time=0.2,
            args=args,
        )
    )


def _missed_by_nobody(run: Callable[..., Any], outcome: Path) -> Callable[..., Any]:
    """The same, but a process that is killed does not end the study for everybody.

    The engine would end the whole job. Whether a study goes on without a center is the study's
    own word, and the coordinator finds out by itself who does not answer.
    """

    def watched(**arguments: Any) -> Any:
        outcome.write_text("0", encoding="utf-8")
        try:
            return run(**arguments)
        finally:
            outcome.unlink(missing_ok=True)

    return watched


if __name__ == "__main__":
    main()
