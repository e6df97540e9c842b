"""Sentences of a study's report: what its data cannot say, and how replies were protected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcox.reports.counts_figure import interval_totals, known_sizes
from fedcox.reports.curve_figure import FEW_AT_RISK
from fedcox.reports.number_text import count_text, noun_text, short_text
from fedcox.reports.privacy_ledger import LedgerTable, protection_of
from fedcox.reports.ratio_table import concordance_text
from fedcox.study.fitted import FittedStudy

EVENTS_PER_COEFFICIENT = 10
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


def limits(fitted: FittedStudy) -> list[str]:
    """One sentence for each thing a reader might wrongly take from the page."""
    unit = fitted.study.schema.time_unit
    end = short_text(float(fitted.interval_ends[-1]))
    return [
        *_unestimated(fitted, "aliased", "repeats", "repeat", "what other columns already say"),
        *_unestimated(fitted, "constant", "has", "have", "the same value for every patient"),
        *_few_events(fitted),
        *_thin_tail(fitted),
        *_noise(fitted),
        f"Nothing is known beyond {end} {unit}: the curves end there, and a median that is "
        "not reached by then stays unknown.",
        "All centers share one baseline hazard. Where centers differ in a way that no "
        "covariate describes, the ratios average over the difference.",
        "A ratio describes these patients as they were seen. Whether changing a covariate "
        "would change the outcome is a question of design, not of this table.",
    ]


def _unestimated(
    fitted: FittedStudy, note: str, singular: str, plural: str, what: str
) -> list[str]:
    names = [row.name for row in fitted.coefficients if row.note == note]
    if not names:
        return []
    verb = singular if len(names) == 1 else plural
    whose = "its effect" if len(names) == 1 else "their effects"
    return [f"{', '.join(names)} {verb} {what}: {whose} cannot be estimated here."]


def _few_events(fitted: FittedStudy) -> list[str]:
    estimated = sum(row.coef is not None for row in fitted.coefficients)
    if fitted.events is None or fitted.events >= EVENTS_PER_COEFFICIENT * estimated:
        return []
    return [
        f"{count_text(fitted.events)} events are few for {estimated} coefficients (a common "
        f"rule asks for {EVENTS_PER_COEFFICIENT} each): ratios may be exaggerated and "
        "intervals too narrow."
    ]


def _thin_tail(fitted: FittedStudy) -> list[str]:
    counts = interval_totals(fitted)
    if counts is None:
        return []
    few = np.flatnonzero(counts.at_risk < FEW_AT_RISK)
    if not few.size:
        return []
    begin = float(fitted.interval_ends[few[0] - 1]) if few[0] else 0.0
    return [
        f"From {short_text(begin)} {fitted.study.schema.time_unit} on fewer than {FEW_AT_RISK} "
        "patients are at risk: that part of the curves rests on very few people."
    ]


def _noise(fitted: FittedStudy) -> list[str]:
    if fitted.guarantee is None:
        return []
    few = (
        "How many patients and events stand behind a ratio, or behind the end of a curve, is "
        "not told. Noise weighs more, the fewer they are."
    )
    if fitted.inferred:
        return [few]
    return [
        "How far noise has moved the ratios and the curves cannot be read off this page: a "
        "ratio may look large, or lie on the wrong side of 1, by noise alone.",
        few,
    ]


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
    sentences = [f"In this run every center {place}, and {_REPLIES[protection]}"]
    if ledger is not None and ledger.patient_level:
        sentences.append("Marked replies are not even sums: they are times of single patients.")
    sentences += _promised(fitted, protection)
    if ledger is not None and ledger.weaker:
        sentences.append(
            f"Less protected than that, and not covered by it: {', '.join(ledger.weaker)}."
        )
    if concordance_text(fitted):
        sentences.append(
            "The concordance compares patients across centers; it was computed inside this "
            "process and is not in the ledger."
        )
    return sentences


def _promised(fitted: FittedStudy, protection: str) -> list[str]:
    if fitted.guarantee is not None:
        return ["No patient's row was sent. What is promised beyond that stands above."]
    if protection == "masks":
        return [
            "No patient's row was sent and nothing of a single center was seen, "
            f"{_NO_GUARANTEE} The sums themselves are exact."
        ]
    return [f"No patient's row was sent, {_NO_GUARANTEE}"]
