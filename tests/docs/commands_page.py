"""`docs/reference/commands.md`, made from `--help`: `python -m tests.docs.commands_page`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "commands.md"
COMMANDS = (
    "demo",
    "simulate",
    "check",
    "plan",
    "fit",
    "predict",
    "evaluate",
    "audit",
    "report",
    "coordinator",
    "coordinator init",
    "coordinator start",
    "coordinator status",
    "coordinator run",
    "coordinator stop",
    "coordinator add-center",
    "coordinator renew",
    "center",
    "center join",
    "center start",
    "center approve",
    "center log",
    "slides",
    "slides simulate",
    "slides segment",
    "slides tile",
    "slides embed",
    "slides reduce",
    "slides train",
    "slides predict",
    "slides heatmap",
    "slides inspect",
    "slides train-unet",
    "reproduce",
    "reproduce synthetic",
    "reproduce tcga",
    "reproduce communication",
    "reproduce appendix-a",
    "reproduce compression",
    "reproduce privacy",
    "reproduce slides",
    "doctor",
)

_HEAD = """\
# The commands

This page is the text of `--help`, command by command; a test compares the two.

Every command ends with status 0 when it did what it says. Wrong input ends with status 2, a
message that says what was found, what is needed and what to do, and nothing written. Status 1
means, of `fedcox doctor`, that something is missing or wrong; of `fedcox audit`, that a patient
was recovered; of `fedcox slides`, that some slides could not be used and the others went on. An
evaluation that is stopped with Ctrl-C ends with status 130 and says
how to go on. Tables go to standard output; progress and errors go to standard error.

A folder or file that exists is only replaced with `--overwrite`, and a folder only if it holds
nothing but what fedcox wrote into it. `fedcox report` alone replaces the page it is told to
write without asking.
"""


#: Prints the help of every command it is given, as one JSON list.
_ASK = """
import contextlib, io, json, sys
from fedcox.cli.main import main

texts = []
for command in sys.argv[1:]:
    sys.argv = ["fedcox", *command.split(), "--help"]
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        main()
    texts.append(told.getvalue())
print(json.dumps(texts))
"""


def help_texts(commands: Sequence[str]) -> list[str]:
    """What `fedcox COMMAND --help` prints, without frames and colours, 88 columns wide."""
    # Whether there are frames is settled when Typer is loaded, so this needs its own process.
    plain = {"TYPER_USE_RICH": "0", "COLUMNS": "88", "NO_COLOR": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", _ASK, *commands],
        env={**os.environ, **plain},
        capture_output=True,
        text=True,
        check=True,
    )
    texts: list[str] = json.loads(ended.stdout)
    return ["\n".join(line.rstrip() for line in text.splitlines()).strip() for text in texts]


def commands_page() -> str:
    """The whole page."""
    texts = help_texts(("", *COMMANDS))
    titles = ("`fedcox`", *(f"`fedcox {command}`" for command in COMMANDS))
    sections = [
        f"## {title}\n\n```text\n{text}\n```\n"
        for title, text in zip(titles, texts, strict=True)
    ]
    return "\n".join([_HEAD, *sections])


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
