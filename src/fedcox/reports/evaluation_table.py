"""An evaluation for the terminal: one line for each scheme, and what to know about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcox.evaluation.comparison import REPLICATES, Comparison, Difference, SchemeSummary
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.reports.number_text import DASH, count_text, noun_text, signed_text

_TITLES = {"folds": "folds inside centers", "left out": "one center left out"}
_MOST_NOTES = 8


def evaluation_table(
    comparison: Comparison, schemes: Sequence[AbstractScheme], *, title: str
) -> Table:
    """Means and differences to the first scheme; what the interval rests on stands below."""
    runs = noun_text(comparison.seeds, "run")
    reference = comparison.schemes[0].scheme
    federated = {scheme.name: scheme.federated for scheme in schemes}
    table = Table(
        title=escape(f"{title}: {_TITLES[comparison.evaluation]}, {runs}"),
        title_justify="left",
        title_style="bold",
        caption=escape(_caption(comparison, federated)),
        caption_justify="left",
    )
    table.add_column("scheme", no_wrap=True)
    table.add_column("federated")
    for header in ("c-index", "sets", f"vs {reference}", "95 % interval"):
        table.add_column(header, justify="right", no_wrap=True)
    for summary in comparison.schemes:
        own = federated[summary.scheme]
        difference = comparison.difference(summary.scheme, reference)
        table.add_row(
            Text(summary.scheme),
            Text("yes" if own else "no", "" if own else "dim"),
            _index_text(summary),
            _test_sets_text(summary),
            *_difference_texts(difference),
        )
    return table


def notes_panel(comparisons: Sequence[Comparison], told: Sequence[str]) -> Panel | None:
    """What the files and the schemes had to say, or None; long lists are cut."""
    notes: Counter[tuple[str, str]] = Counter()
    for comparison in comparisons:
        for note in comparison.notes:
            notes[note.scheme, note.text] += note.test_sets
    if not notes and not told:
        return None
    lines = [Text(sentence) for sentence in told]
    lines += [
        Text.assemble((f"{scheme}, {noun_text(count, 'test set')}. ", "bold"), text)
        for (scheme, text), count in notes.most_common(_MOST_NOTES)
    ]
    rest = len(notes) - _MOST_NOTES
    if rest > 0:
        lines.append(Text(f"… and {count_text(rest)} more, in folds.jsonl."))
    return Panel(
        Group(*lines), title="read before use", title_align="left", border_style="yellow"
    )


def _caption(comparison: Comparison, federated: Mapping[str, bool]) -> str:
    lines = ["c-index: mean ± standard deviation over the test sets; 0.5 is chance."]
    if len(comparison.schemes) > 1:
        lines.append(REPLICATES[comparison.replicates])
    if not all(federated[summary.scheme] for summary in comparison.schemes):
        lines.append("Schemes that are not federated pool the patients, for comparison.")
    return "\n".join(lines)


def _index_text(summary: SchemeSummary) -> str:
    if summary.mean is None:
        return DASH
    return f"{summary.mean:.3f}" + ("" if summary.sd is None else f" ± {summary.sd:.3f}")


def _test_sets_text(summary: SchemeSummary) -> str:
    if not summary.without_index:
        return count_text(summary.test_sets)
    every = summary.test_sets + summary.without_index
    return f"{count_text(summary.test_sets)} of {count_text(every)}"


def _difference_texts(difference: Difference | None) -> tuple[str, str]:
    if difference is None or difference.mean is None:
        return DASH, DASH
    if difference.low is None:
        return signed_text(difference.mean), DASH
    low, high = signed_text(difference.low), signed_text(difference.high)
    return signed_text(difference.mean), f"{low} to {high}"
