"""An evaluation for the terminal: one line for each scheme, and what to know about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcox.evaluation.comparison import REPLICATES, Comparison
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.reports.evaluation_lines import (
    EVALUATION_WORDS,
    LEAKS,
    POOLS,
    SchemeLine,
    found_notes,
    remarks,
    scheme_line,
)
from fedcox.reports.number_text import count_text, noun_text

_MOST_NOTES = 8
#: Marks beside a scheme's name, by the word on whether it is federated, and what they mean.
_MARKS = {"no": ("*", POOLS), "leaks": ("†", LEAKS)}


def evaluation_table(
    comparison: Comparison, schemes: Sequence[AbstractScheme], *, title: str
) -> Table:
    """Means and differences to the first scheme; what the interval rests on stands below."""
    reference = comparison.schemes[0].scheme
    named = {scheme.name: scheme for scheme in schemes}
    lines = [
        scheme_line(
            summary,
            comparison.difference(summary.scheme, reference),
            scheme=named.get(summary.scheme),
        )
        for summary in comparison.schemes
    ]
    words, runs = EVALUATION_WORDS[comparison.evaluation], noun_text(comparison.seeds, "run")
    table = Table(
        title=escape(f"{title}: {words}, {runs}"),
        title_justify="left",
        title_style="bold",
        caption=escape("\n".join(_caption(comparison, lines))),
        caption_justify="left",
    )
    table.add_column("scheme", no_wrap=True)
    table.add_column("c-index", justify="right", no_wrap=True)
    table.add_column("sets", justify="right", no_wrap=True)
    # A long name may break: all else in its column is short.
    table.add_column(f"vs {reference}", justify="right", overflow="fold")
    table.add_column("95 % interval", justify="right", no_wrap=True)
    for line in lines:
        mark = f" {_MARKS[line.federated][0]}" if line.federated in _MARKS else ""
        table.add_row(
            Text(f"{line.scheme}{mark}"),
            line.index,
            line.test_sets,
            line.difference,
            line.interval,
        )
    return table


def notes_panel(comparisons: Sequence[Comparison], told: Sequence[str]) -> Panel | None:
    """What the files and the schemes had to say, or None; long lists are cut."""
    notes = found_notes(("", comparison) for comparison in comparisons)
    if not notes and not told:
        return None
    notes.sort(key=lambda note: -note.test_sets)
    lines = [Text(sentence) for sentence in told]
    lines += [
        Text.assemble((f"{note.who}: ", "bold"), note.text) for note in notes[:_MOST_NOTES]
    ]
    rest = len(notes) - _MOST_NOTES
    if rest > 0:
        lines.append(Text(f"… and {count_text(rest)} more, in folds.jsonl."))
    return Panel(
        Group(*lines), title="read before use", title_align="left", border_style="yellow"
    )


def _caption(comparison: Comparison, lines: Sequence[SchemeLine]) -> Iterable[str]:
    found = {line.federated for line in lines}
    yield from (
        f"{mark} {meaning}" for word, (mark, meaning) in _MARKS.items() if word in found
    )
    yield "c-index: mean ± standard deviation over the test sets; 0.5 is chance."
    yield from remarks(comparison)
    if len(lines) > 1:
        yield REPLICATES[comparison.replicates]
