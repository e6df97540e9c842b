"""Files and folders that only their owner can read, and that one process at a time works on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcox.errors import DeploymentError
from fedcox.files.locks import locked
from fedcox.files.writing import whole_folder, write_atomically

_LARGEST = 1 << 20


@contextmanager
def new_private_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, for its owner only; it is there whole or not at all."""
    if os.path.lexists(folder):
        raise DeploymentError(f"{folder} exists already.", ["Choose another --folder."])
    with whole_folder(folder) as part:
        yield part


@contextmanager
def lock(path: Path, refusal: DeploymentError, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file or folder; refused where another process has it for so long."""
    with locked(path, patience=patience) as ours:
        if not ours:
            raise refusal
        yield


def write_private_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON for its owner only."""
    write_atomically(file, json.dumps(content, indent=2).encode() + b"\n")


def read_json(file: Path, missing: str) -> dict[str, Any]:
    """The JSON object of a small file; `missing` says what to do where there is no file."""
    try:
        if file.stat().st_size > _LARGEST:
            raise DeploymentError(f"{file} is too large to be what its name says.")
        content = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise DeploymentError(f"{file} is missing.", [missing]) from error
    except OSError as error:
        raise DeploymentError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise DeploymentError(f"{file} is damaged: it is not JSON.") from error
    if not isinstance(content, dict):
        raise DeploymentError(f"{file} is damaged: it holds no JSON object.")
    return content
