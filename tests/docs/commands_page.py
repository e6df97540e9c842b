"""`docs/reference/commands.md`, made from `--help`: `python -m tests.docs.commands_page`."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "commands.md"
COMMANDS = (
    "demo",
    "simulate",
    "check",
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


def help_text(command: str) -> str:
    """What `fedcox COMMAND --help` prints, without frames and colours, 88 columns wide."""
    plain = {"TYPER_USE_RICH": "0", "COLUMNS": "88", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "fedcox.cli.main", *command.split(), "--help"]
    environment = {**os.environ, **plain}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines).strip().replace("python -m fedcox.cli.main", "fedcox")


def commands_page() -> str:
    """The whole page."""
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(help_text, ("", *COMMANDS)))
    titles = ("`fedcox`", *(f"`fedcox {command}`" for command in COMMANDS))
    sections = [
        f"## {title}\n\n```text\n{text}\n```\n"
        for title, text in zip(titles, texts, strict=True)
    ]
    return "\n".join([_HEAD, *sections])


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
