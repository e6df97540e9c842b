"""What these data cannot say, in sentences made from the fit itself."""

from __future__ import annotations

import numpy as np

from fedcox.reports.curve_figure import FEW_AT_RISK
from fedcox.reports.interval_counts import interval_counts
from fedcox.reports.number_text import count_text, short_text
from fedcox.study.fitted import FittedStudy

EVENTS_PER_COEFFICIENT = 10


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
    counts = interval_counts(fitted)
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
