"""`python -m fedcox.deployment.guarded_job …`: a study's process at a hospital, guarded.

Takes the arguments of `nvflare.private.fed.app.client.worker_process`, which the engine's
client gives it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedcox.deployment.flare import flare_module
from fedcox.deployment.guard import guard_job


def main() -> None:
    """Guard this process, then be the engine's job process until it ends."""
    guard_job()
    engine = flare_module("nvflare.private.fed.app.client.worker_process")
    monitor = flare_module("nvflare.fuel.f3.mpm").MainProcessMonitor
    args = engine.parse_arguments()
    place = str(Path(args.workspace) / args.job_id)
    sys.exit(monitor.run(main_func=engine.main, run_dir=place, args=args))


if __name__ == "__main__":
    main()
