"""Which protection the replies of a fit had, and which questions had less."""

from __future__ import annotations

from fedcox.reports.center_choice import known_sizes
from fedcox.reports.privacy_ledger import LedgerSummary
from fedcox.study.fitted import FittedStudy

#: The ledger's words, from the least protected to the most. Others, as of keys, are no replies.
PROTECTIONS = ("none", "masks", "noise", "masks and noise")


def protection_of(fitted: FittedStudy) -> str:
    """The protection of the fit as a whole, in the ledger's words."""
    if fitted.guarantee is not None:
        return "masks and noise" if fitted.guarantee.masked else "noise"
    return "none" if known_sizes(fitted.centers) is not None else "masks"


def weaker_questions(summary: LedgerSummary, protection: str) -> tuple[str, ...]:
    """Questions of which some reply was protected less than the fit as a whole."""
    less = frozenset(PROTECTIONS[: PROTECTIONS.index(protection)])
    return tuple(
        query for query in summary.queries if summary.of_query(query).protections & less
    )
