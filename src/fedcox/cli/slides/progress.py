"""How far a step over slides is: slides, tiles per second, time left.

A bar where somebody looks; where not, such as in a log file, a line now and then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedcox.cli.terminal import Terminal, say

if TYPE_CHECKING:
    from fedcox.slides.step import AbstractStep, StepOutcome, StepProgress, Watch

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def step_display(title: str) -> Iterator[Watch]:
    """What `run_step` reports to, drawn on standard error while the block lasts."""
    console = Terminal(stderr=True, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        yield _lines(title, console)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=None, state="")

        def watch(at: StepProgress) -> None:
            bar.update(task, completed=at.done, total=at.total, state=progress_text(at))
            if (line := event_text(at)) is not None:
                bar.console.print(line, markup=False)

        yield watch


def _lines(title: str, console: Terminal) -> Watch:
    """Plain lines: every failure, and where the step stands at most every few seconds."""
    printed = time.monotonic()

    def watch(at: StepProgress) -> None:
        nonlocal printed
        if (line := event_text(at)) is not None:
            console.print(line, markup=False)
        now = time.monotonic()
        if now - printed >= _SECONDS_BETWEEN_LINES:
            printed = now
            console.print(f"{title}: {progress_text(at)}", markup=False)

    return watch


def progress_text(at: StepProgress) -> str:
    """`3/20 slides, 1,200 tiles, 310 tiles/s, 0:02:10 left`."""
    parts = [f"{at.done:,}/{at.total:,} slides"]
    if at.tiles:
        parts += [f"{at.tiles:,} tiles", f"{at.tiles_per_second:,.0f} tiles/s"]
    if at.seconds_left is not None and at.done < at.total:
        parts.append(f"{duration_text(at.seconds_left)} left")
    return ", ".join(parts)


def event_text(at: StepProgress) -> str | None:
    """What somebody must know of one slide; nothing of one that went as usual."""
    if at.outcome == "failed":
        return f"{at.slide_id}: failed. {at.reason}"
    if at.outcome == "redone":
        return f"{at.slide_id}: made anew, since its file was of other settings or damaged."
    if at.outcome == "busy":
        return f"{at.slide_id}: left to another process, which works on it just now."
    return None


def duration_text(seconds: float) -> str:
    """`1:02:03`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def take_step(
    step: AbstractStep, manifest: Path, work: Path, *, title: str, folder: str
) -> None:
    """Do a step on all slides of a manifest that need it, and tell how it ended."""
    from fedcox.slides.manifest import SlideManifest
    from fedcox.slides.step import run_step

    slides = SlideManifest.read(manifest).slides
    with step_display(title) as watch:
        outcome = run_step(step, slides, work, watch)
    tell_outcome(outcome, work, folder)


def tell_left_out(
    out: Path, step: str, slides: Mapping[str, str], patients: Mapping[str, str]
) -> None:
    """Who is not in `out`, with the reason, here and in a file beside it; then status 1."""
    from fedcox.slides.step import write_failures_beside

    path = write_failures_beside(out, step, slides, patients)
    if path is None:
        return
    for slide_id, reason in slides.items():
        say(f"{slide_id}: left out. {reason}", err=True)
    if patients:
        say(f"{len(patients):,} patient(s) left out.", err=True)
    say(f"{path} says who was left out, and why.", err=True)
    raise typer.Exit(1)


def tell_outcome(outcome: StepOutcome, work: Path, folder: str) -> None:
    """How a step ended, in a sentence; status 1 where slides failed."""
    made = len(outcome.made) + len(outcome.redone)
    parts = [f"{made:,} made", f"{len(outcome.kept):,} kept from before"]
    if outcome.redone:
        parts[0] += f" ({len(outcome.redone):,} anew, since settings changed)"
    if outcome.busy:
        parts.append(f"{len(outcome.busy):,} left to another process")
    parts.append(f"{len(outcome.failed):,} failed")
    tiles = f"; {outcome.tiles:,} tiles" if outcome.tiles else ""
    seconds = duration_text(outcome.seconds)
    say(f"{work / folder}: slides {', '.join(parts)}{tiles}; {seconds}.")
    if outcome.failed:
        say(f"{work / 'failures.csv'} says why slides failed.")
        raise typer.Exit(1)
