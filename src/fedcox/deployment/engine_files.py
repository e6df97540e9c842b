"""What the engine reads on a machine: certificates, addresses and rules, all written by fedcox.

The files of its `startup` folder are those of `nvflare provision` without its scripts, written
here so that nobody edits them and nothing of another machine is obeyed. The files of its
`local` folder say what it may do: the machine's owner writes them, and nobody else. The engine
obeys them, and every file of certain names beside them. They are written anew before each
start; a file that fedcox did not write is refused, since it could allow what these forbid.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fedcox.deployment.certificates import COORDINATOR_ROLE, COORDINATOR_USER, Credentials
from fedcox.deployment.kit import is_loopback
from fedcox.deployment.private_files import write_private_json
from fedcox.errors import DeploymentError
from fedcox.files.writing import owners_folder, write_atomically

#: WebSockets over TLS: one outgoing connection per center, which firewalls let pass.
SCHEME = "http"
# Both sides show a certificate of the project's authority.
_SECURITY = "mtls"

ROOT = "rootCA.pem"
_PART = re.compile(r"\.(.+)\.[0-9]+\.part")  # as `whole_file` names it
CENTER_FILES = frozenset({"fed_client.json", "client.crt", "client.key", ROOT})
SERVER_FILES = frozenset({"fed_server.json", "server.crt", "server.key", ROOT})
# The only classes that a job may name on either side: those of the installed package, and the
# two of the engine that call them.
CENTER_CLASSES = (
    "fedcox.deployment.center_job.CenterJob",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
SERVER_CLASSES = (
    "fedcox.deployment.study_job.StudyController",
    "fedcox.deployment.study_job.StudyJob",
)
_NOBODY = "none"
# At a hospital the coordinator may start and stop a job and see whether one runs; nobody may
# bring code, run a shell command, ask about the machine, restart or change it.
_AT_CENTER = {
    "submit_job": "any",
    "manage_job": "any",
    "view": "any",
    "clone_job": _NOBODY,
    "download_job": _NOBODY,
    "operate": _NOBODY,
    "shell_commands": _NOBODY,
    "byoc": _NOBODY,
    "server-predeployed-flwr": _NOBODY,
}
# On the coordinator's own machine the same, and the server may be shut down.
_AT_SERVER = {**_AT_CENTER, "operate": "any"}
_ROLES_WITHOUT_RIGHTS = ("org_admin", "lead", "member")
_RULES = frozenset(
    {"resources.json", "authorization.json", "comm_config.json", "log_config.json"}
)


def write_center_startup(
    workspace: Path,
    *,
    project: str,
    center: str,
    host: str,
    port: int,
    credentials: Credentials,
) -> None:
    """The start-up folder of a hospital's client."""
    settings = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": project,
                "service": {"target": f"{host}:{port}", "scheme": SCHEME},
                "identity": host,
            }
        ],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": ROOT,
            "fqsn": center,
            "is_leaf": True,
            "connection_security": _SECURITY,
        },
    }
    _write(workspace, "fed_client.json", settings, "client", credentials)


def write_server_startup(
    workspace: Path, *, project: str, host: str, port: int, credentials: Credentials
) -> None:
    """The start-up folder of the coordinator's server.

    The engine listens on loopback only where `host` is loopback, else on every address of the
    machine: to keep it to one network is the firewall's part.
    """
    settings = {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": project,
                "service": {"target": f"{host}:{port}", "scheme": SCHEME},
                "admin_server": host,
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": ROOT,
                "connection_security": _SECURITY,
            }
        ],
    }
    _write(workspace, "fed_server.json", settings, "server", credentials)


def write_admin_startup(
    workspace: Path, *, project: str, host: str, port: int, credentials: Credentials
) -> None:
    """The start-up folder of the person who submits studies."""
    settings = {
        "format_version": 1,
        "admin": {
            "project_name": project,
            "username": COORDINATOR_USER,
            "server_identity": host,
            "scheme": SCHEME,
            # On the server's own machine, which may not be reached by its name from inside.
            "host": host if is_loopback(host) else "127.0.0.1",
            "port": port,
            "connection_security": _SECURITY,
            "uid_source": "user_input",
            "with_file_transfer": True,
            "upload_dir": "transfer",
            "download_dir": "transfer",
            "client_key": "client.key",
            "client_cert": "client.crt",
            "ca_cert": ROOT,
        },
    }
    _write(workspace, "fed_admin.json", settings, "client", credentials)


def _write(
    workspace: Path, name: str, settings: dict[str, Any], role: str, credentials: Credentials
) -> None:
    startup = owners_folder(owners_folder(workspace) / "startup")
    write_private_json(startup / name, settings)
    write_atomically(startup / f"{role}.crt", credentials.certificate)
    write_atomically(startup / f"{role}.key", credentials.key)
    write_atomically(startup / ROOT, credentials.root)


def write_center_rules(workspace: Path) -> None:
    """The rules of a hospital, whatever its kit said."""
    _check_startup(workspace, CENTER_FILES)
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(CENTER_CLASSES),
        # A log may hold what an error said about a patient: none is sent to the coordinator.
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "app_validator": {"path": "fedcox.deployment.job_launcher.OnlySettings", "args": {}},
        "components": [
            _component(
                "resource_manager",
                "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
                num_of_gpus=0,
                mem_per_gpu_in_GiB=0,
                expiration_period=300,
            ),
            _component(
                "resource_consumer",
                "nvflare.app_common.resource_consumers."
                "gpu_resource_consumer.GPUResourceConsumer",
            ),
            _component("process_launcher", "fedcox.deployment.job_launcher.GuardedJobLauncher"),
        ],
    }
    _write_rules(workspace, resources, _AT_CENTER)


def write_server_rules(workspace: Path, *, store: Path, centers: int) -> None:
    """The rules of the coordinator's server; its jobs and results are kept in `store`."""
    _check_startup(workspace, SERVER_FILES)
    place = owners_folder(store).resolve()
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(SERVER_CLASSES),
        "app_validator": {"path": "fedcox.deployment.job_launcher.OnlySettings", "args": {}},
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": max(100, centers),
                "heart_beat_timeout": 600,
                "download_job_url": "http://download.server.com/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors."
            "storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
                    "args": {
                        "root_dir": str(owners_folder(place / "snapshots")),
                        "uri_root": "/",
                    },
                },
            },
        },
        "components": [
            _component(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=4,
            ),
            _component(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=str(owners_folder(place / "jobs")),
                job_store_id="job_store",
            ),
            _component(
                "job_store", "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
            ),
            _component("process_launcher", "fedcox.deployment.job_launcher.StudyLauncher"),
        ],
    }
    _write_rules(workspace, resources, _AT_SERVER)


def write_admin_rules(workspace: Path) -> None:
    """What the coordinator's own client of the server needs."""
    owners_folder(workspace / "transfer")
    settings = {
        "idle_timeout": 900.0,
        "login_timeout": 10.0,
        "with_debug": False,
        "authenticate_msg_timeout": 2.0,
        "prompt": "> ",
    }
    write_private_json(
        owners_folder(workspace / "local") / "resources.json",
        {"format_version": 1, "admin": settings},
    )


def _write_rules(workspace: Path, resources: dict[str, Any], rights: dict[str, str]) -> None:
    local = owners_folder(workspace / "local")
    _refuse_others(local, _RULES)
    permissions: dict[str, Any] = {COORDINATOR_ROLE: rights}
    permissions |= dict.fromkeys(_ROLES_WITHOUT_RIGHTS, _NOBODY)
    write_private_json(local / "resources.json", resources)
    write_private_json(
        local / "authorization.json", {"format_version": "1.0", "permissions": permissions}
    )
    write_private_json(local / "comm_config.json", _ON_THIS_MACHINE)
    write_private_json(local / "log_config.json", _LOG)


def _check_startup(workspace: Path, expected: frozenset[str]) -> None:
    startup = workspace / "startup"
    missing = sorted(name for name in expected if not (startup / name).is_file())
    if missing:
        raise DeploymentError(
            f"{startup} is not complete: {', '.join(missing)} missing.",
            ["A center joins again with its kit; a coordinator restores the folder."],
        )
    _refuse_others(startup, expected)


def _refuse_others(folder: Path, ours: frozenset[str]) -> None:
    _remove_parts(folder, ours)
    others = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if others:
        raise DeploymentError(
            f"{folder} holds more than fedcox wrote: {', '.join(others)}.",
            ["The engine would obey these files. Move them away, if they are not yours."],
        )


def _remove_parts(folder: Path, names: Collection[str]) -> None:
    """Remove what `whole_file`, cut off, left of files of these names; nothing else."""
    for path in folder.iterdir():
        of = _PART.fullmatch(path.name)
        if of and of[1] in names and path.is_file() and not path.is_symlink():
            path.unlink()


def _component(name: str, path: str, **args: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": args}


# Processes of one machine talk over loopback; no center connects to another.
_ON_THIS_MACHINE = {
    "allow_adhoc_conns": False,
    "backbone_conn_gen": 2,
    # A buffer of this size is made anew for every message, each way; the usual megabyte takes a
    # tenth of an exchange of short ones.
    "streaming_chunk_size": 2**18,
    "internal": {
        "scheme": "tcp",
        # Other users of this machine could speak to a port of clear text. At a hospital, whose
        # certificate cannot serve, this closes the port to all: its processes reach each other
        # by way of the server.
        "resources": {"host": "localhost", "connection_security": "mtls"},
    },
}

# One stream, which the process that starts the engine writes into the folder's own log.
_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
        }
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "level": "INFO",
            "formatter": "line",
            "stream": "ext://sys.stdout",
        }
    },
    "loggers": {"root": {"level": "INFO", "handlers": ["console"]}},
}
