"""The repository itself: nothing of the machine it was written on, nothing of a patient."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
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
        text = path.read_text(encoding="utf-8")
        for match in FORBIDDEN[what].finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}")
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


@dataclass(frozen=True)
class Module:
    """What is asked of a module of the package, read from its text once."""

    called: frozenset[str]  # bare names
    imported: frozenset[str]


@cache
def module(path: Path) -> Module:
    called: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
    names.update([name.split(".")[0] for name in names])
    return Module(frozenset(called), frozenset(names))


def test_the_package_neither_runs_words_nor_asks_at_the_keyboard() -> None:
    calls = {"eval", "exec", "input", "breakpoint"}
    found = {path: module(path).called & calls for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


def test_nothing_is_pickled_and_nobody_is_phoned() -> None:
    pickled = {"pickle", "shelve", "marshal"}
    phoned = {"socket", "urllib.request", "http", "requests", "ssl"}
    # Between hospitals somebody must call; that is what this room is for.
    calling = ROOT / "src" / "fedcox" / "deployment"
    found = {}
    for path in SOURCES:
        refused = pickled if calling in path.parents else pickled | phoned
        if module(path).imported & refused:
            found[str(path)] = module(path).imported & refused
    assert found == {}


def test_the_rooms_in_contributing_are_those_of_the_import_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = text.split("```")[1].strip().splitlines()
    rooms = [re.split(r"  +", line)[0] for line in tree]
    assert rooms == [layer.replace("(", "").replace(")", "") for layer in layers]
