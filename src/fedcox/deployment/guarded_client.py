"""`python -m fedcox.deployment.guarded_client …`: the engine's client, guarded.

Takes the arguments of `nvflare.private.fed.app.client.client_train`.
"""

from __future__ import annotations

import sys

from fedcox.deployment.flare import flare_module
from fedcox.deployment.guard import guard_client


def main() -> None:
    """Guard this process, then be the engine's client until it ends."""
    guard_client()
    engine = flare_module("nvflare.private.fed.app.client.client_train")
    monitor = flare_module("nvflare.fuel.f3.mpm").MainProcessMonitor
    engine.version_check()
    args = engine.parse_arguments()
    sys.exit(monitor.run(main_func=engine.main, run_dir=args.workspace, args=args))


if __name__ == "__main__":
    main()
