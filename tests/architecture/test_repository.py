"""The repository itself: nothing of the machine it was written on, nothing of a patient."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
# Written apart, so that this file does not find itself.
FORBIDDEN = {
    "an absolute path": re.compile(
        r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|ho" r"me|tm" r"p|Us" r"ers)/\w"
    ),
    "a drive of Windows": re.compile(r"\b[A-Z]:\\(?:Us" r"ers)\\"),
    "an unfinished place": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"),
}
TEXT = {"", ".py", ".md", ".toml", ".txt", ".cff", ".R", ".json", ".j2", ".yaml", ".yml"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git knows or would add; all files below src and tests without git."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        paths = [ROOT / name for name in listed.split("\0") if name]
    else:
        paths = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    return tuple(path for path in paths if path.is_file())


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_text_holds(what: str) -> None:
    found = []
    for path in tracked():
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if FORBIDDEN[what].search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert found == []


def test_every_tracked_text_is_utf_8_with_plain_line_ends() -> None:
    for path in tracked():
        if path.suffix in TEXT:
            content = path.read_bytes()
            assert b"\r" not in content, path
            content.decode("utf-8")


def test_no_table_of_patients_is_tracked() -> None:
    tables = {".csv", ".tsv", ".parquet", ".pq", ".xlsx", ".npz", ".pkl", ".pickle"}
    assert [path for path in tracked() if path.suffix in tables] == []


def test_no_tracked_file_is_large() -> None:
    assert [path for path in tracked() if path.stat().st_size > 500_000] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_module_says_which_question_it_answers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if tree.body:  # an empty __init__.py answers none
        assert ast.get_docstring(tree)


def calls(name: str) -> list[str]:
    """Where the package calls a function by that bare name."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == name
    ]


@pytest.mark.parametrize("name", ["print", "eval", "exec", "input", "breakpoint"])
def test_the_package_never_calls(name: str) -> None:
    assert calls(name) == []


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        names.update(full, (name.split(".")[0] for name in full))
    return names


def test_nothing_is_pickled_and_nobody_is_phoned() -> None:
    pickled = {"pickle", "shelve", "marshal"}
    phoned = {"socket", "urllib.request", "http", "requests", "ssl"}
    # Between hospitals somebody must call; that is what this room is for.
    calling = ROOT / "src" / "fedcox" / "deployment"
    found = {}
    for path in SOURCES:
        refused = pickled if calling in path.parents else pickled | phoned
        if imported(path) & refused:
            found[str(path)] = imported(path) & refused
    assert found == {}
