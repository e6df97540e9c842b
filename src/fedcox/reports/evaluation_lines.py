"""The lines of an evaluation's tables: schemes, and pairs of them, in words."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.evaluation.comparison import Comparison, Difference, SchemeSummary
from fedcox.reports.number_text import (
    DASH,
    bytes_text,
    count_text,
    short_text,
    signed_text,
)


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


def scheme_line(
    summary: SchemeSummary,
    difference: Difference | None,
    *,
    federated: bool,
    expected: float | None,
) -> SchemeLine:
    """One scheme; `difference` is that to the reference, None for the reference itself."""
    return SchemeLine(
        scheme=summary.scheme,
        federated="yes" if federated else "no",
        index=_index_text(summary),
        test_sets=_test_sets_text(summary),
        expected="" if expected is None else f"{expected:.3f}",
        difference=DASH if difference is None else signed_text(difference.mean),
        interval="" if difference is None else _interval_text(difference),
        clear=difference is not None and _clear(difference),
        seconds=f"{short_text(summary.seconds, 2)} s",
        rounds=count_text(round(summary.rounds, 1)) if summary.rounds else DASH,
        bytes_up=bytes_text(summary.bytes_up) if summary.rounds else DASH,
        bytes_down=bytes_text(summary.bytes_down) if summary.rounds else DASH,
    )


def against(comparison: Comparison, scheme: str, reference: str) -> Difference | None:
    """`scheme` minus `reference`, whichever of the two stands first; None against itself."""
    found = comparison.difference(scheme, reference)
    if found is not None:
        return found
    other = comparison.difference(reference, scheme)
    if other is None:
        return None

    def turned(value: float | None) -> float | None:
        return None if value is None else -value

    return Difference(
        scheme,
        reference,
        turned(other.mean),
        turned(other.high),
        turned(other.low),
        other.pairs,
        other.replicates,
    )


def _index_text(summary: SchemeSummary) -> str:
    if summary.mean is None:
        return DASH
    spread = DASH if summary.sd is None else f"{summary.sd:.3f}"
    return f"{summary.mean:.3f} ± {spread}"


def _test_sets_text(summary: SchemeSummary) -> str:
    text = count_text(summary.test_sets)
    if summary.without_index:
        text += f" (+{count_text(summary.without_index)} without)"
    return text


def _interval_text(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return "no interval"
    return f"{signed_text(difference.low)} to {signed_text(difference.high)}"


def _clear(difference: Difference) -> bool:
    """Whether the interval leaves out zero."""
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)


def pair_line(difference: Difference) -> PairLine:
    """Two schemes in words."""
    return PairLine(
        f"{difference.scheme} − {difference.reference}",
        signed_text(difference.mean),
        _interval_text(difference),
        count_text(difference.pairs),
        _clear(difference),
    )
