"""An evaluation in words and as a table: a line for each scheme, and what to know about them.

The terminal and the page say the same, so both take their words from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcox.evaluation.comparison import (
    FEW_EVENTS,
    REPLICATES,
    Comparison,
    Difference,
    SchemeSummary,
)
from fedcox.evaluation.result import Evaluation
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.reports.number_text import (
    DASH,
    bytes_text,
    count_text,
    noun_text,
    short_text,
    signed_text,
)

EVALUATION_WORDS: dict[Evaluation, str] = {
    "folds": "folds inside centers",
    "left out": "one center left out",
}
POOLS = "pools the patients, for comparison only; not federated."
LEAKS = (
    "federated, but what it sends tells single patients apart; for experiments only, not for "
    "hospitals."
)
_MOST_NOTES = 8
#: Marks beside a scheme's name, by the word on whether it is federated, and what they mean.
_MARKS = {"no": ("*", POOLS), "leaks": ("†", LEAKS)}


@dataclass(frozen=True)
class SchemeLine:
    """One scheme in the table of a panel."""

    scheme: str
    federated: str
    index: str
    test_sets: str
    expected: str
    difference: str
    interval: str
    clear: bool
    seconds: str
    rounds: str
    bytes_up: str
    bytes_down: str


@dataclass(frozen=True)
class PairLine:
    """Two schemes on the same test sets."""

    pair: str
    difference: str
    interval: str
    test_sets: str
    clear: bool


@dataclass(frozen=True)
class FoundNote:
    """What schemes had to say, and which of them on how many test sets."""

    who: str
    text: str
    test_sets: int


def scheme_line(
    summary: SchemeSummary,
    difference: Difference | None,
    *,
    scheme: AbstractScheme | None,
    expected: float | None = None,
) -> SchemeLine:
    """One scheme; `difference` is that to the reference, None for the reference itself.

    `scheme` is None where it is no longer known.
    """
    return SchemeLine(
        scheme=summary.scheme,
        federated=federated_word(scheme),
        index=_index_text(summary),
        test_sets=_test_sets_text(summary),
        expected="" if expected is None else f"{expected:.3f}",
        difference=DASH if difference is None else signed_text(difference.mean),
        interval=DASH if difference is None else _interval_text(difference),
        clear=difference is not None and _clear(difference),
        seconds=f"{short_text(summary.seconds, 2)} s",
        rounds=count_text(round(summary.rounds, 1)) if summary.rounds else DASH,
        bytes_up=bytes_text(summary.bytes_up) if summary.rounds else DASH,
        bytes_down=bytes_text(summary.bytes_down) if summary.rounds else DASH,
    )


def federated_word(scheme: AbstractScheme | None) -> str:
    """Whether patients stay in their centers: "yes", "no", or "leaks" for half a promise."""
    if scheme is None:
        return DASH
    if not scheme.federated:
        return "no"
    return "leaks" if scheme.leaks else "yes"


def against(comparison: Comparison, scheme: str, reference: str) -> Difference | None:
    """`scheme` minus `reference`, whichever of the two stands first; None against itself."""
    difference = comparison.difference(scheme, reference)
    if difference is not None:
        return difference
    other = comparison.difference(reference, scheme)
    if other is None:
        return None

    def turned(value: float | None) -> float | None:
        return None if value is None else -value

    mean, low, high = turned(other.mean), turned(other.high), turned(other.low)
    return Difference(scheme, reference, mean, low, high, other.pairs, other.replicates)


def pair_line(difference: Difference) -> PairLine:
    """Two schemes in words."""
    return PairLine(
        f"{difference.scheme} − {difference.reference}",
        signed_text(difference.mean),
        _interval_text(difference),
        count_text(difference.pairs),
        _clear(difference),
    )


def remarks(comparison: Comparison) -> list[str]:
    """What stands below a table so that nobody takes its means for more than they are."""
    return [*_few_events(comparison), *_repeated_centers(comparison)]


def found_notes(compared: Iterable[tuple[str, Comparison]]) -> list[FoundNote]:
    """What the schemes had to say, each sentence once; the title tells data sets apart.

    A title is that of the comparison's data set, or empty where there is only one.
    """
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for title, comparison in compared:
        for note in comparison.notes:
            schemes = counts.setdefault(note.text, {}).setdefault(title, {})
            schemes[note.scheme] = schemes.get(note.scheme, 0) + note.test_sets
    return [
        FoundNote(
            "; ".join(_who(title, schemes) for title, schemes in titles.items()),
            text,
            sum(count for schemes in titles.values() for count in schemes.values()),
        )
        for text, titles in counts.items()
    ]


def data_notes(notes: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """What is to be known of data sets, each sentence once and after the data it concerns."""
    titles: dict[str, list[str]] = {}
    for title, sentences in notes:
        for sentence in sentences:
            titles.setdefault(sentence, []).append(title)
    return [
        f"{', '.join(named)}: {sentence}" if any(named) else sentence
        for sentence, named in titles.items()
    ]


def _who(title: str, schemes: dict[str, int]) -> str:
    """Schemes with their test sets; those with equally many together."""
    groups: dict[int, list[str]] = {}
    for scheme, count in schemes.items():
        groups.setdefault(count, []).append(scheme)
    words = "; ".join(
        f"{', '.join(names)}, on {noun_text(count, 'test set')}"
        + (" each" if len(names) > 1 else "")
        for count, names in groups.items()
    )
    return f"{title}: {words}" if title else words


def _few_events(comparison: Comparison) -> Iterable[str]:
    few = comparison.few_events
    if few:
        have, its = ("has", "its") if few == 1 else ("have", "their")
        yield (
            f"{noun_text(few, 'test set')} {have} fewer than {FEW_EVENTS} events; {its} "
            "c-indices rest on few pairs and count like the others."
        )


def _repeated_centers(comparison: Comparison) -> Iterable[str]:
    """Runs repeat left-out centers of the same patients; only what is drawn differs."""
    if comparison.replicates == "centers" and comparison.seeds > 1:
        centers = noun_text(comparison.test_sets // comparison.seeds, "center")
        runs = noun_text(comparison.seeds, "run")
        yield (
            f"The {count_text(comparison.test_sets)} test sets are {centers} in {runs}: "
            "a scheme that draws nothing has the same c-index in every run."
        )


def _index_text(summary: SchemeSummary) -> str:
    if summary.mean is None:
        return DASH
    return f"{summary.mean:.3f}" + ("" if summary.sd is None else f" ± {summary.sd:.3f}")


def _test_sets_text(summary: SchemeSummary) -> str:
    if not summary.without_index:
        return count_text(summary.test_sets)
    every = summary.test_sets + summary.without_index
    return f"{count_text(summary.test_sets)} of {count_text(every)}"


def _interval_text(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return DASH
    return f"{signed_text(difference.low)} to {signed_text(difference.high)}"


def _clear(difference: Difference) -> bool:
    """Whether the interval leaves out zero."""
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)


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


def notes_panel(
    comparisons: Sequence[Comparison], reading_notes: Sequence[str]
) -> Panel | None:
    """What the files and the schemes had to say, or None; long lists are cut."""
    notes = found_notes(("", comparison) for comparison in comparisons)
    if not notes and not reading_notes:
        return None
    notes.sort(key=lambda note: -note.test_sets)
    lines = [Text(sentence) for sentence in reading_notes]
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
    present = {line.federated for line in lines}
    yield from (
        f"{mark} {meaning}" for word, (mark, meaning) in _MARKS.items() if word in present
    )
    yield "c-index: mean ± standard deviation over the test sets; 0.5 is chance."
    yield from remarks(comparison)
    if len(lines) > 1:
        yield REPLICATES[comparison.replicates]
