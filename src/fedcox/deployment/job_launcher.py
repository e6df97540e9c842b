"""How the engine starts the process of a study, here and at a hospital.

The engine joins the words of a command without quotes, so that a folder with a space in its
name could not be used; and at a hospital the process is guarded.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, JobConstants
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from fedcox.deployment.guarded_job import OUTCOME

_GUARDED = ["-m", "fedcox.deployment.guarded_job"]


class GuardedJobLauncher(ClientProcessJobLauncher):  # type: ignore[misc]  # has no types
    """At a hospital: `fedcox.deployment.guarded_job` in place of the engine's own module."""

    def launch_job(self, job_meta: Any, fl_ctx: Any) -> Any:
        """Start it; one that ends before it is guarded is missed by nobody either."""
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        place = Path(workspace.get_run_dir(job_meta[JobConstants.JOB_ID]))
        (place / OUTCOME).write_text("0", encoding="utf-8")
        return super().launch_job(job_meta, fl_ctx)

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The command, quoted."""
        words = _words(fl_ctx, get_client_job_args(include_exe_module=False))
        return shlex.join([sys.executable, *_GUARDED, *words])


class StudyLauncher(ServerProcessJobLauncher):  # type: ignore[misc]  # has no types
    """At the coordinator: the engine's own module."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """The command, quoted."""
        return shlex.join([sys.executable, *_words(fl_ctx, get_server_job_args())])


def _words(fl_ctx: Any, names: Sequence[str]) -> list[str]:
    given = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    words: list[str] = []
    for name in names:
        if given.get(name):
            option, value = given[name]
            # The options KEY=VALUE are several words in one text; every other value is one.
            several = name == JobProcessArgs.OPTIONS
            words += [option, *(str(value).split() if several else [str(value)])]
    return words
