"""Read a TOML file that somebody wrote by hand, or say what is wrong with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from fedcox.errors import InputError


def read_toml(path: str | Path, *, kind: str, error: type[InputError]) -> str:
    """The text of a file in UTF-8; `kind` is what the file is called in errors."""
    file = Path(path)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise error(f"{file}: there is no such {kind} file.") from None
    except IsADirectoryError:
        raise error(f"{file}: this is a folder; a {kind} is one TOML file.") from None
    except UnicodeDecodeError as found:
        raise error(
            f"{file}: this {kind} file is not UTF-8 text (byte {found.start + 1}).",
            ["Save it with the encoding UTF-8."],
        ) from None
    except OSError as found:
        raise error(f"{file}: this {kind} file cannot be read: {found.strerror}.") from None


def parse_toml(text: str, *, source: str, error: type[InputError]) -> dict[str, Any]:
    """The tables of a TOML text; `source` names it in errors."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as found:
        raise error(f"{source}: this is not valid TOML.", [f"{found}."]) from None
