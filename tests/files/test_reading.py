"""A file that somebody wrote by hand is read, or its fault is told in the words of its kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedcox.errors import InputError, PolicyError, StudyError
from fedcox.files.reading import parse_toml, read_toml

KINDS = {"study": StudyError, "policy": PolicyError}


@pytest.mark.parametrize(
    "content", [b"a = 'Z\xc3\xbcrich'\n", b"\xef\xbb\xbfa = 'Z\xc3\xbcrich'\n"]
)
def test_text_is_read_with_or_without_a_mark_of_its_encoding(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "study.toml"
    file.write_bytes(content)
    assert read_toml(str(file), kind="study", error=StudyError) == "a = 'Zürich'\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_names_the_file_and_its_kind(tmp_path: Path, kind: str) -> None:
    latin, missing = tmp_path / "latin.toml", tmp_path / "none.toml"
    latin.write_bytes("a = 'Zürich'\n".encode("latin-1"))
    told = {
        missing: f"{missing}: there is no such {kind} file.",
        tmp_path: f"{tmp_path}: this is a folder; a {kind} is one TOML file.",
        latin: f"{latin}: this {kind} file is not UTF-8 text (byte 7).",
    }
    for file, subject in told.items():
        with pytest.raises(InputError) as raised:
            read_toml(file, kind=kind, error=KINDS[kind])
        assert type(raised.value) is KINDS[kind]
        assert raised.value.subject == subject


@pytest.mark.skipif(os.name != "posix", reason="names of files are limited otherwise elsewhere")
def test_what_the_system_says_is_passed_on(tmp_path: Path) -> None:
    file = tmp_path / ("x" * 300)
    with pytest.raises(
        PolicyError, match="this policy file cannot be read: File name too long"
    ):
        read_toml(file, kind="policy", error=PolicyError)


def test_text_that_is_no_toml_is_told_with_its_line() -> None:
    assert parse_toml("[a]\nb = 1", source="mine", error=StudyError) == {"a": {"b": 1}}
    with pytest.raises(StudyError) as raised:
        parse_toml("[a]\nb = \nc = 1", source="mine", error=StudyError)
    assert raised.value.subject == "mine: this is not valid TOML."
    assert "line 2" in raised.value.faults[0]
