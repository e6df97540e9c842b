"""The results as tables: on the screen, or as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as ScreenTable

from benchmarks.contenders import CONTENDERS
from benchmarks.headlines import Headline
from benchmarks.problems import Problem
from benchmarks.results import Result, Results

_NONE = "–"


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def show(self, console: Console) -> None:
        """Print it as a table of the terminal."""
        screen = ScreenTable(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for number, name in enumerate(self.header):
            screen.add_column(name, justify="left" if number == 0 else "right")
        for row in self.rows:
            screen.add_row(*row)
        console.print(screen)
        for note in self.notes:
            console.print(f"  {note}", highlight=False, markup=False)

    def markdown(self) -> str:
        rule = ["---"] + ["---:"] * (len(self.header) - 1)
        lines = [f"**{self.title}**", ""]
        lines += [f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows)]
        lines += ["", *(f"* {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"


def problem_table(problem: Problem, results: Results) -> Table:
    """One row per contender, costs also as multiples of each baseline; empty columns go."""
    found = [
        results[problem.name, name]
        for name in problem.contenders
        if (problem.name, name) in results
    ]
    ran = [result for result in found if result.cost is not None]
    columns: list[tuple[str, Callable[[Result], str]]] = [
        ("wall s", lambda result: _number_text(result.seconds)),
        ("CPU s", lambda result: _number_text(result.cpu_seconds)),
    ]
    for name in problem.baselines:
        columns.append((f"÷ {label_of(name)}", _multiple_of(results.get((problem.name, name)))))
    columns += [
        ("extra MiB", lambda result: _number_text(result.extra_mib)),
        ("rounds", lambda result: _count_text(result.rounds)),
        ("bytes up", lambda result: _bytes_text(result.bytes_up)),
        ("bytes down", lambda result: _bytes_text(result.bytes_down)),
        ("max coef. diff.", lambda result: _tiny_text(result.coefficient_difference)),
        ("max s.e. diff.", _standard_errors_text),
        (
            "c-index",
            lambda result: (
                _NONE if result.concordance is None else f"{result.concordance:.12f}"
            ),
        ),
    ]
    cells = {title: [text(result) for result in ran] for title, text in columns}
    kept = {title: texts for title, texts in cells.items() if set(texts) != {_NONE}}
    rows = list(
        zip([label_of(result.contender) for result in ran], *kept.values(), strict=True)
    )
    return Table(_title(problem, found), ["", *kept], rows, _notes(problem, found))


def headline_table(headlines: Sequence[Headline], *, quick: bool) -> Table:
    """Print each target beside what was measured; a quick run keeps and breaks none."""
    held = {True: "yes", False: "NO", None: "not run"}
    if quick:
        held |= {True: "quick", False: "quick"}
    rows = [(line.target, line.measured, held[line.held]) for line in headlines]
    return Table("Targets", ["target", "measured", "held?"], rows)


def _title(problem: Problem, found: Sequence[Result]) -> str:
    repeats = max((result.repeats for result in found), default=problem.repeats)
    quick = (
        ", QUICK: far smaller, the ratios say nothing" if any(r.quick for r in found) else ""
    )
    return f"{problem.title} (best of {repeats}{quick})"


def _notes(problem: Problem, found: Sequence[Result]) -> list[str]:
    reasons = {result.contender: result.left_out for result in found if result.left_out}
    reasons |= problem.left_out
    return [f"{label_of(name)} left out: {reason}." for name, reason in reasons.items()]


def _multiple_of(baseline: Result | None) -> Callable[[Result], str]:
    def text(result: Result) -> str:
        if baseline is None or not baseline.cost or result.cost is None:
            return _NONE
        return _number_text(result.cost / baseline.cost)

    return text


def label_of(contender: str) -> str:
    """Name a contender for a reader."""
    return CONTENDERS[contender].label if contender in CONTENDERS else contender


def _number_text(value: float | None) -> str:
    """Three digits, without an exponent."""
    if value is None:
        return _NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _tiny_text(value: float | None) -> str:
    return _NONE if value is None else f"{value:.0e}"


def _standard_errors_text(result: Result) -> str:
    if result.coefficient_difference is not None and result.standard_error_difference is None:
        return "none given"
    return _tiny_text(result.standard_error_difference)


def _count_text(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _bytes_text(value: int | None) -> str:
    """In kB or MB, powers of ten."""
    if value is None:
        return _NONE
    if value >= 1_000_000:
        return f"{_number_text(value / 1e6)} MB"
    return f"{_number_text(value / 1e3)} kB"
