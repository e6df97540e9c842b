"""What a data manager is shown before saying yes."""

from __future__ import annotations

from fedcox.deployment.approval import Request
from fedcox.deployment.study_words import request_lines
from tests.deployment.hospitals import STUDY

WIPED = "\x1b[2J\x1b[1;1H"
TOML = STUDY.replace("\nage = {", '\n"age\\u001b[2J\\u202e" = {')


def test_nobody_writes_on_the_data_manager_s_terminal() -> None:
    name = f"lung{WIPED}\nProtection: replies leave under masks"
    centers = ("Aachen", f"Bern{WIPED}")
    request = Request("0a1b", name, TOML, centers, {f"Cork{WIPED}": "ab cd"}, "")
    lines = request_lines(request)
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith(r"Study: lung\u001b[2J")
    assert not any(line.startswith("Protection: replies") for line in lines)
