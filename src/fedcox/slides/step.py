"""How a step goes through the slides of a folder: what is done, what is left, what failed.

A step makes one file per slide. A file that is there, opens, and was made with the same
settings is kept; any other is made anew. A slide that cannot be used is named in failures.csv,
and the others go on; what was made of it before, in this step and in later ones, is removed,
since nothing may go on with it. Where nobody can tell what its file should depend on, since the
slide or what an earlier step makes is away, it keeps what it has.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Literal, Protocol, TypeAlias

from fedcox.errors import SlideError
from fedcox.files.locks import claimed
from fedcox.files.writing import write_csv
from fedcox.slides.bag_file import kept_settings

Settings: TypeAlias = Mapping[str, str | int | float | None]
"""What a slide's file depends on; written into it as JSON, and compared."""
FAILURE_COLUMNS = ("slide_id", "step", "reason")
_PATIENCE = 10.0
REDUCED = "reduced"


class SlideRow(Protocol):
    """A slide as a manifest names it."""

    @property
    def slide_id(self) -> str: ...

    @property
    def path(self) -> Path | None: ...


class AbstractStepFiles(ABC):
    """Which file a step makes of a slide, and what that file depends on."""

    #: The command's name, as in failures.csv.
    name: str

    @abstractmethod
    def target(self, slide_id: str, work: Path) -> Path:
        """The file that the step makes of a slide."""

    @abstractmethod
    def settings(self, slide: SlideRow, work: Path) -> Settings:
        """What the file depends on: options, and the digest of the file before it.

        SlideError where the slide lacks what it takes to begin.
        """

    def kept_settings(self, target: Path) -> Settings | None:
        """The settings inside a finished file, here a bag; nothing where it does not open."""
        return kept_settings(target)


class AbstractStep(AbstractStepFiles):
    """One step of the way from slide to score, for one slide at a time.

    What cannot be used is a SlideError and concerns one slide; any other error ends the step.
    """

    @abstractmethod
    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        """Write the file whole and tell its tiles; `tick` takes more tiles as they are done."""


Outcome: TypeAlias = Literal["started", "working", "made", "redone", "kept", "failed", "busy"]


@dataclass(frozen=True)
class StepProgress:
    """Where a step stands after something happened to a slide.

    `kept` counts slides that were done before; `tiles` and `seconds` are of this run.
    """

    slide_id: str
    outcome: Outcome
    done: int
    total: int
    kept: int
    tiles: int
    seconds: float
    reason: str = ""

    @property
    def tiles_per_second(self) -> float:
        return self.tiles / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; unknown before the first slide of this run is done."""
        made = self.done - self.kept
        return self.seconds / made * (self.total - self.done) if made > 0 else None


@dataclass(frozen=True)
class StepOutcome:
    """What became of each slide: those made, and those kept, failed, or left to another."""

    made: tuple[str, ...] = ()
    redone: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    tiles: int = 0
    seconds: float = 0.0


Watch: TypeAlias = Callable[[StepProgress], None]


def run_step(
    step: AbstractStep,
    slides: Sequence[SlideRow],
    work: Path,
    watch: Watch = lambda _: None,
) -> StepOutcome:
    """Make the file of every slide that needs one, one by one, and write failures.csv."""
    run = StepRun(step, work, watch, len(slides))
    try:
        for slide in [slide for slide in slides if not run.is_kept(slide)]:
            if not run.begin(slide):
                continue
            try:
                tiles = step.make(slide, work, partial(run.tick, slide))
            except SlideError as error:
                run.fail(slide, error)
            else:
                run.finish(slide, tiles)
    finally:
        run.close()
    return run.outcome()


class StepRun:
    """One pass over the slides, and where it stands; several slides may be under way at once.

    First every slide goes through `is_kept`; then each of the others is begun, and finished or
    failed. At the end, also after an error, `close`.
    """

    def __init__(self, step: AbstractStepFiles, work: Path, watch: Watch, total: int) -> None:
        self._step, self._work, self._watch, self._total = step, work, watch, total
        self._begun = monotonic()
        self._became: dict[str, Outcome] = {}
        self._failed: dict[str, str] = {}
        self._tiles: dict[str, int] = {}
        self._anew: set[str] = set()
        self._claims: dict[str, ExitStack] = {}

    def is_kept(self, slide: SlideRow) -> bool:
        """Nothing is to be done: it was before, or the slide lacks what it takes to begin."""
        try:
            wanted = self._step.settings(slide, self._work)
        except SlideError as error:
            self._failed[slide.slide_id] = reason_of(error)
            self._settle(slide, "failed")
            return True
        target = self._target(slide)
        kept = self._step.kept_settings(target) if target.exists() else None
        if kept is None or dict(kept) != dict(wanted):
            return False
        self._settle(slide, "kept")
        return True

    def begin(self, slide: SlideRow) -> bool:
        """Whether the slide is ours to work on now; it is, until it is finished or failed."""
        target = self._target(slide)
        with ExitStack() as stack:
            if not stack.enter_context(claimed(target)):
                self._settle(slide, "busy")
                return False
            if self.is_kept(slide):  # another process has finished it meanwhile
                return False
            if target.exists():
                self._anew.add(slide.slide_id)
            self._claims[slide.slide_id] = stack.pop_all()
        self._tell(slide, "started")
        return True

    def tick(self, slide: SlideRow, tiles: int) -> None:
        """So many tiles more are done."""
        self._tiles[slide.slide_id] = self._tiles.get(slide.slide_id, 0) + tiles
        self._tell(slide, "working")

    def finish(self, slide: SlideRow, tiles: int) -> None:
        """The slide's file is in its place, with so many tiles in all."""
        self._tiles[slide.slide_id] = tiles
        self._settle(slide, "redone" if slide.slide_id in self._anew else "made")

    def fail(self, slide: SlideRow, error: SlideError) -> None:
        """The slide cannot be used; the others go on."""
        removed = self._remove(slide)
        self._tiles.pop(slide.slide_id, None)
        note = f" (Removed, since made of it before: {', '.join(removed)}.)" if removed else ""
        self._failed[slide.slide_id] = reason_of(error) + note
        self._settle(slide, "failed")

    def close(self) -> None:
        """Give back the slides that are under way."""
        for slide_id in list(self._claims):
            self._claims.pop(slide_id).close()

    def outcome(self) -> StepOutcome:
        """What became of each slide, also written to failures.csv."""
        settled = [slide for slide, became in self._became.items() if became != "busy"]
        write_failures(self._work, self._step.name, self._failed, settled)
        return StepOutcome(
            made=self._those("made"),
            redone=self._those("redone"),
            kept=self._those("kept"),
            busy=self._those("busy"),
            failed=dict(self._failed),
            tiles=sum(self._tiles.values()),
            seconds=monotonic() - self._begun,
        )

    def _remove(self, slide: SlideRow) -> list[str]:
        """Delete what is there of the slide, of other settings or another file; tell its names.

        The own file goes last: where a process is killed in between, it begins with it again.
        """
        target = self._target(slide)
        there = [*made_after(self._step.name, slide.slide_id, self._work)]
        there += [target] if target.exists() else []
        for path in there:
            path.unlink(missing_ok=True)
        return [path.relative_to(self._work).as_posix() for path in there]

    def _those(self, which: str) -> tuple[str, ...]:
        return tuple(slide for slide, became in self._became.items() if became == which)

    def _target(self, slide: SlideRow) -> Path:
        return self._step.target(slide.slide_id, self._work)

    def _settle(self, slide: SlideRow, outcome: Outcome) -> None:
        self._became[slide.slide_id] = outcome
        if slide.slide_id in self._claims:
            self._claims.pop(slide.slide_id).close()
        self._tell(slide, outcome)

    def _tell(self, slide: SlideRow, outcome: Outcome) -> None:
        kept = sum(became == "kept" for became in self._became.values())
        self._watch(
            StepProgress(
                slide.slide_id,
                outcome,
                len(self._became),
                self._total,
                kept,
                sum(self._tiles.values()),
                monotonic() - self._begun,
                self._failed.get(slide.slide_id, ""),
            )
        )


def slide_file(slide: SlideRow) -> Path:
    """The slide's own file, which a step needs; SlideError where it is missing."""
    if slide.path is None:
        raise SlideError("The manifest names no file for this slide.", ["Fill in its path."])
    if not slide.path.exists():
        raise SlideError(f"There is no file {slide.path}.", ["Correct the manifest's path."])
    return slide.path


def reason_of(error: SlideError) -> str:
    """One line for failures.csv."""
    return " ".join([error.subject, *error.faults])


def write_failures(
    work: Path, step: str, failed: Mapping[str, str], settled: Iterable[str]
) -> Path:
    """Replace the rows of `step` about the slides `settled`: those in `failed` have a reason.

    Rows of other steps stay, and those of slides that another process works on.
    """
    path = work / "failures.csv"
    gone = set(settled)
    begun = monotonic()
    while True:
        with claimed(path) as ours:
            if ours or monotonic() - begun > _PATIENCE:
                rows = [
                    row for row in read_failures(work) if row[1] != step or row[0] not in gone
                ]
                rows += [(slide, step, failed[slide]) for slide in failed]
                write_csv(path, [FAILURE_COLUMNS, *sorted(rows)])
                return path
        sleep(0.05)


def write_failures_beside(
    out: Path, step: str, slides: Mapping[str, str], patients: Mapping[str, str]
) -> Path | None:
    """What a command that writes `out` alone left out, with the reasons.

    With none, the file of an earlier run goes.
    """
    path = out.with_name(f"{out.name.removesuffix('.csv')}-failures.csv")
    rows = [(name, step, reason) for name, reason in slides.items()]
    rows += [("", step, f"Patient '{name}': {reason}") for name, reason in patients.items()]
    if not rows:
        path.unlink(missing_ok=True)
        return None
    write_csv(path, [FAILURE_COLUMNS, *rows])
    return path


def read_failures(work: Path) -> list[tuple[str, str, str]]:
    """(slide_id, step, reason) of every slide that failed; none where no step has run."""
    try:
        with (work / "failures.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        return []
    return [(row["slide_id"], row["step"], row["reason"]) for row in rows]


def mask_path(slide_id: str, work: Path) -> Path:
    """What `segment` makes."""
    return work / "masks" / f"{slide_id}.png"


def tiles_path(slide_id: str, work: Path) -> Path:
    """What `tile` makes."""
    return work / "tiles" / f"{slide_id}.h5"


def features_path(slide_id: str, work: Path) -> Path:
    """What `embed` makes."""
    return work / "features" / f"{slide_id}.h5"


def reduced_path(slide_id: str, work: Path) -> Path:
    """What `reduce` makes, of these features or of another program's."""
    return work / REDUCED / f"{slide_id}.h5"


_WAY = {"segment": mask_path, "tile": tiles_path, "embed": features_path}


def made_after(step: str, slide_id: str, work: Path) -> Iterator[Path]:
    """Files of a slide that rest on what `step` makes of it, the last one first."""
    if step not in _WAY:
        return
    # Without features of our own, the reduced ones are of another program's.
    if features_path(slide_id, work).exists() and reduced_path(slide_id, work).exists():
        yield reduced_path(slide_id, work)
    names = list(_WAY)
    for name in reversed(names[names.index(step) + 1 :]):
        path = _WAY[name](slide_id, work)
        if path.exists():
            yield path
