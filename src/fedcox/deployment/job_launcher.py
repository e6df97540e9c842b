"""Which job may run here, and how the engine starts its process.

Only a job that is nothing but settings may run. The engine joins the words of a command without
quotes, so that a folder with a space in its name could not be used; and at a hospital the
process is guarded.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.apis.fl_constant import FLContextKey, JobConstants
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from fedcox.deployment.guarded_job import OUTCOME

# What `fedcox coordinator run` submits; the engine adds its signatures to each folder.
_SIGNATURES = frozenset({".__nvfl_sig.json", ".__nvfl_submitter.crt"})
_SETTINGS = frozenset({"config_fed_server.json", "config_fed_client.json"})
_LARGEST = 1 << 16
_GUARDED = ["-m", "fedcox.deployment.guarded_job"]


class OnlySettings(AppValidator):  # type: ignore[misc]  # the engine's classes have no types
    """Refuses a job that brings anything but its two files of settings.

    The engine asks for it by name in `local/resources.json`, before a job is used. Code in a
    job is then refused whoever submits it, and whatever role he is said to have.
    """

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """The engine's question: an error in words, or none."""
        root = Path(app_folder)
        if all(_expected(path, path.relative_to(root)) for path in root.rglob("*")):
            return "", {}
        return "the job brings more than settings; it is refused", {}


def _expected(path: Path, within: Path) -> bool:
    if path.is_symlink():
        return False
    if path.is_dir():
        return within == Path("config")
    folder, name = within.parent, within.name
    settings = folder == Path("config") and name in _SETTINGS
    signature = folder in (Path(), Path("config")) and name in _SIGNATURES
    return (settings or signature) and path.is_file() and path.stat().st_size <= _LARGEST


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
