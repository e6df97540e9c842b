"""What the engine reads first: certificates and addresses in a `startup` folder.

The files are those of `nvflare provision` without its scripts, written here so that nobody
edits them and nothing of another machine is obeyed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedcox.deployment.authority import COORDINATOR_USER, Credentials
from fedcox.deployment.participants import is_loopback
from fedcox.deployment.private_files import write_private_json
from fedcox.files.writing import owners_folder, write_atomically

#: WebSockets over TLS: one outgoing connection per center, which firewalls let pass.
SCHEME = "http"
# Both sides show a certificate of the project's authority.
_SECURITY = "mtls"

ROOT = "rootCA.pem"
CENTER_FILES = frozenset({"fed_client.json", "client.crt", "client.key", ROOT})
SERVER_FILES = frozenset({"fed_server.json", "server.crt", "server.key", ROOT})


def write_center_startup(
    workspace: Path, *, project: str, center: str, host: str, port: int, own: Credentials
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
    _write(workspace, "fed_client.json", settings, "client", own)


def write_server_startup(
    workspace: Path, *, project: str, host: str, port: int, own: Credentials
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
    _write(workspace, "fed_server.json", settings, "server", own)


def write_admin_startup(
    workspace: Path, *, project: str, host: str, port: int, own: Credentials
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
    _write(workspace, "fed_admin.json", settings, "client", own)


def _write(
    workspace: Path, name: str, settings: dict[str, Any], role: str, own: Credentials
) -> None:
    startup = owners_folder(owners_folder(workspace) / "startup")
    write_private_json(startup / name, settings)
    write_atomically(startup / f"{role}.crt", own.certificate)
    write_atomically(startup / f"{role}.key", own.key)
    write_atomically(startup / ROOT, own.root)
