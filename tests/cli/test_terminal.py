"""What a terminal would obey is shown, whoever wrote it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.table import Table

from fedcox.cli.terminal import Terminal
from fedcox.shown_text import shown
from tests.cli.conftest import STUDY, Files, Run, invented

#: Wipes the screen; turns text around; begins a sequence in one byte; a bell.
EVIL = "evil\x1b[2J\x1b]0;title\x07\u202e\x9b2J"


def obeyed(text: str) -> set[str]:
    return {sign for sign in text if not sign.isprintable() and sign != "\n"}


def test_signs_are_shown_by_their_number_and_spaces_stay() -> None:
    assert shown("a\x1b[2J\tß −\u00a0x\u202e") == "a\\u001b[2J\\u0009ß −\u00a0x\\u202e"


@pytest.mark.parametrize("colours", [True, False])
def test_a_table_with_colours_holds_no_sequence_but_its_own(colours: bool) -> None:
    written = io.StringIO()
    terminal = Terminal(file=written, force_terminal=colours, width=60)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(f"[bold]{EVIL}[/]")
    terminal.print(table)
    told = written.getvalue()
    assert "\\u001b" in told
    assert ("\x1b[1m" in told) == colours
    for sequence in ("\x1b[2J", "\x1b]0;", "\x07", "\u202e", "\x9b"):
        assert sequence not in told


def _toml(text: str) -> str:
    return "".join(f"\\u{ord(sign):04x}" for sign in text)


def test_names_of_studies_columns_levels_and_centers_are_shown(
    fedcox: Run, files: Files
) -> None:
    study = STUDY.replace('"invented"', f'"{_toml(EVIL)}"').replace(
        "\nage =", f'\n"{_toml("age" + EVIL)}" ='
    )
    study = study.replace('"III"]', f'"{_toml("III" + EVIL)}"]')
    files.study.write_text(study, encoding="utf-8")
    frame = invented().rename(columns={"age": "age" + EVIL})
    frame["stage"] = frame["stage"].replace("III", "III" + EVIL)
    frame["hospital"] = frame["hospital"].replace("north", "north" + EVIL)
    frame.to_csv(files.data, index=False)
    told = fedcox(*files.words())
    assert told.status == 0, told.err
    assert "\\u001b" in told.out
    assert not obeyed(told.out + told.err)
    for words in (
        ("check", files.study, "--data", files.data),
        ("predict", files.run, "--data", files.data, "--out", files.folder / "risk.csv"),
        ("report", files.run),
    ):
        told = fedcox(*words)
        assert told.status == 0, told.err
        assert not obeyed(told.out + told.err)


def test_errors_show_what_is_in_files_and_in_their_names(
    fedcox: Run, files: Files, tmp_path: Path
) -> None:
    evil = tmp_path / f"{EVIL}.csv"
    invented().rename(columns={"age": f"age{EVIL}"}).to_csv(evil, index=False)
    told = fedcox("check", files.study, "--data", evil)
    assert told.status == 2
    assert told.err.count("\\u001b") >= 4  # of the file's name and of its column
    assert not obeyed(told.out + told.err)
    files.study.write_text(f'[study]\nname = 1\n"{_toml(EVIL)}" = 2\n', encoding="utf-8")
    told = fedcox("fit", files.study, "--data", files.data, "--out", files.run)
    assert told.status == 2
    assert "\\u001b" in told.err
    assert not obeyed(told.out + told.err)
