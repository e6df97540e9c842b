"""What the engine's client may be asked to do in a hospital, whoever asks.

The engine lets its server say whether a request needs authorization at a site, and gives
every right to a role of the name "super": its own rules hold against an honest server only. One
of the requests prints any file of the machine. Here the requests that no study needs are taken
out before the client connects, and rights are given by what is asked, never by who is said to
ask. A job's number is the name of a folder beside the hospital's rules and its key, which the
engine clears for the job: only what is a number is taken for one.

`python -m fedcox.deployment.guard …` is the engine's client, guarded. It takes the arguments of
`nvflare.private.fed.app.client.client_train`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from fedcox.deployment.extras import flare_module
from fedcox.deployment.processes import is_job_number

# To begin, watch and end a job.
_REQUESTS = frozenset(
    {
        "AbortAppProcessor",
        "AbortTaskProcessor",
        "CancelResourceProcessor",
        "CheckResourceProcessor",
        "ClientStatusProcessor",
        "DeployProcessor",
        "NotifyJobStatusProcessor",
        "ScopeInfoProcessor",
        "StartJobProcessor",
    }
)
_COMMANDS = frozenset({"AbortCommand", "AbortTaskCommand", "ByeCommand", "CheckStatusCommand"})
# Of the engine's network: to end with it, and to be known as alive.
_NETWORK = frozenset({"_do_stop", "_do_stop_cell", "_do_heartbeat"})
_CATEGORIES = frozenset({"manage_job", "view"})


def guard_client() -> None:
    """For the process that stays connected."""
    _hide_error_texts()
    _hide_the_process()
    known = flare_module("nvflare.private.fed.client.client_req_processors")
    requests = known.ClientRequestProcessors.request_processors
    _keep(requests, _REQUESTS)
    for each in requests:
        each.process = _for_numbered_jobs(each.process)
    authz = flare_module("nvflare.fuel.sec.authz")
    # The first authorizer stays; the engine's own, which obeys "super", comes too late.
    authz.AuthorizationService.initialize(_authorizer(authz))


def guard_job() -> None:
    """For the process of one study."""
    _hide_error_texts()
    _hide_the_process()
    known = flare_module("nvflare.private.fed.client.admin_commands")
    _keep(known.AdminCommands.commands, _COMMANDS)


def _hide_error_texts() -> None:
    # The engine then sends the kind of an exception, never its words.
    os.environ["NVFLARE_SECURE_LOGGING"] = "true"


def _hide_the_process() -> None:
    """Answer no question about the process, nor change its connections.

    Any participant may ask these, and nobody authorizes them. The memory that a study's process
    takes tells how many patients it has read.
    """
    agent = flare_module("nvflare.fuel.f3.cellnet.net_agent").NetAgent
    known = {name for name in vars(agent) if name.startswith("_do_")}
    if not known > _NETWORK:
        raise RuntimeError("this version of the engine's network answers otherwise than known")
    for name in known - _NETWORK:
        setattr(agent, name, _no_answer)


def _no_answer(agent: Any, request: Any) -> None:
    return None


def _keep(known: list[Any], wanted: frozenset[str]) -> None:
    kept = [each for each in known if type(each).__name__ in wanted]
    if {type(each).__name__ for each in kept} != wanted:
        raise RuntimeError("this version of the engine handles other requests than known here")
    known[:] = kept


def _for_numbered_jobs(process: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    header = flare_module("nvflare.private.defs").RequestHeader.JOB_ID
    refused = flare_module("nvflare.private.admin_defs").error_reply

    def checked(request: Any, engine: Any) -> Any:
        job = request.get_header(header)
        if job and not is_job_number(job):
            return refused("not allowed at this center")
        return process(request, engine)

    return checked


def _authorizer(authz: Any) -> Any:
    categories: dict[str, str] = flare_module("nvflare.security.security").COMMAND_CATEGORIES

    class ByRequest(authz.Authorizer):  # type: ignore[misc]  # the engine has no types
        def authorize(self, ctx: Any) -> tuple[bool, str]:
            # A job is brought under the right to submit one.
            right = "" if ctx is None else ctx.right
            allowed = right == "submit_job" or categories.get(right) in _CATEGORIES
            return (True, "") if allowed else (False, "not allowed at this center")

    return ByRequest("fedcox")


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
