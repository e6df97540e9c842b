"""How the replies of a fit were protected, and what that leaves open, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from fedcox.reports.center_choice import known_sizes
from fedcox.reports.ledger_table import LedgerTable
from fedcox.reports.number_text import noun_text
from fedcox.reports.protection import protection_of
from fedcox.reports.ratio_rows import concordance_text
from fedcox.study.fitted import FittedStudy

SUMS_ONLY = (
    "Only sums over all centers were seen: no center's own counts are known to the coordinator."
)
NO_COUNTS = (
    "No counts of patients or events are given, neither over all centers nor by center: exact "
    "counts would break the promise that differential privacy makes to each patient."
)
_REPLIES: Mapping[str, str] = {
    "none": "the replies are bare: sums over a center's patients, neither masked nor noised.",
    "masks": "every reply left its center under masks, which vanish in the sum over the "
    "centers alone: the coordinator saw those sums and no single center's reply.",
    "noise": "every reply left its center with noise for differential privacy in it.",
    "masks and noise": "every reply left its center under masks, which vanish in the sum over "
    "the centers alone, with a part of the noise for differential privacy in it: the "
    "coordinator saw noisy sums and no single center's reply.",
}
_NO_GUARANTEE = (
    "but that is not a guarantee of privacy: sums over few patients can give single patients "
    "away."
)


def sums_from(fitted: FittedStudy) -> str:
    """What the fit was made on, for a subtitle."""
    centers = noun_text(len(fitted.centers), "center")
    return {
        "none": f"sums from {centers}",
        "masks": f"masked sums over {centers}",
        "noise": f"noisy sums from {centers}",
        "masks and noise": f"noisy, masked sums over {centers}",
    }[protection_of(fitted)]


def counts_words(fitted: FittedStudy) -> str:
    """Why counts by center, or all counts, are missing; empty where they are there."""
    if fitted.guarantee is not None:
        return NO_COUNTS
    return "" if known_sizes(fitted.centers) is not None else SUMS_ONLY


def ledger_words(fitted: FittedStudy, ledger: LedgerTable | None) -> list[str]:
    """What the list of replies does and does not say about privacy."""
    protection = protection_of(fitted)
    place = "answered from its own machine" if fitted.deployed else "was in one process"
    said = [f"In this run every center {place}, and {_REPLIES[protection]}"]
    if ledger is not None and ledger.patient_level:
        said.append("Marked replies are not even sums: they are times of single patients.")
    said += _promised(fitted, protection)
    if ledger is not None and ledger.weaker:
        said.append(
            f"Less protected than that, and not covered by it: {', '.join(ledger.weaker)}."
        )
    if concordance_text(fitted):
        said.append(
            "The concordance compares patients across centers; it was computed inside this "
            "process and is not in the ledger."
        )
    return said


def _promised(fitted: FittedStudy, protection: str) -> list[str]:
    if fitted.guarantee is not None:
        return ["No patient's row was sent. What is promised beyond that stands above."]
    if protection == "masks":
        return [
            "No patient's row was sent and nothing of a single center was seen, "
            f"{_NO_GUARANTEE} The sums themselves are exact."
        ]
    return [f"No patient's row was sent, {_NO_GUARANTEE}"]
