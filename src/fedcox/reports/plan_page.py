"""The page of a plan: tables, and curves over the number of patients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from fedcox.files.writing import write_atomically
from fedcox.reports.axis import ValueAxis, powers_axis, ratios_axis
from fedcox.reports.guarantee_words import NO_GUARANTEE_BEYOND, epsilon_explained
from fedcox.reports.line_plot import Line, LinePlot, line_plot
from fedcox.reports.number_text import DASH, bound_text, count_text
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plan_words import (
    choice_lines,
    compared_with,
    headline,
    notes,
    ratio_above,
    readings,
    size_lines,
)
from fedcox.study.fit_rows import versions
from fedcox.study.study_plan import NoiseChoice, StudyPlan

#: Ratios and epsilons beyond these are of no use, and would flatten the curves.
_MOST_RATIO, _LEAST_EPSILON, _MOST_EPSILON = 5.0, 0.1, 100.0


def write_plan_page(path: str | Path, plan: StudyPlan) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, plan_html(plan))


def plan_html(plan: StudyPlan) -> str:
    """The page as text."""
    content = {
        "plan": plan,
        "headline": headline(plan),
        "facts": _facts(plan),
        "notes": notes(plan),
        "choices": choice_lines(plan),
        "sizes": size_lines(plan),
        "compared": compared_with(plan),
        "readings": readings(plan),
        "explained": epsilon_explained(plan.delta),
        "ratios": _ratio_plot(plan),
        "epsilons": _epsilon_plot(plan),
        "beyond": f"{NO_GUARANTEE_BEYOND:g}",
        "versions": versions(),
    }
    return page_html("plan.html.j2", content)


def _facts(plan: StudyPlan) -> list[Fact]:
    own = plan.own
    epsilon = "∞" if own.epsilon == math.inf else DASH
    if own.epsilon is not None and math.isfinite(own.epsilon):
        epsilon = bound_text(own.epsilon)
    return [
        Fact(epsilon, "epsilon", own.asked),
        Fact(DASH if own.price is None else f"× {own.price:.2f}", "standard errors", "at most"),
        *(
            Fact(ratio_above(ratio) if own.answers else DASH, "smallest ratio", effect.label)
            for effect, ratio in zip(plan.effects, own.smallest, strict=False)
        ),
        Fact(
            ratio_above(plan.exact.smallest[0]), "the same without noise", plan.effects[0].label
        ),
    ]


def _ratio_plot(plan: StudyPlan) -> LinePlot | None:
    """The smallest ratio of the first effect, over the number of patients."""
    lines = [
        Line(
            curve[0].asked,
            [(point.patients, point.smallest[0]) for point in curve if _told(point)],
            style,
        )
        for style, curve in enumerate(plan.curves)
        if _ratio_worth_showing(plan, curve)
    ]
    return _plot(plan, lines, "smallest hazard ratio", ratios=True)


def _ratio_worth_showing(plan: StudyPlan, curve: Sequence[NoiseChoice]) -> bool:
    """No noise, the study's own, and epsilons; the other prices are parallel to no noise."""
    asked = curve[0].asked
    return asked in ("no noise", compared_with(plan)) or asked.startswith("epsilon")


def _told(point: NoiseChoice) -> bool:
    return point.answers and point.smallest[0] <= _MOST_RATIO


def _epsilon_plot(plan: StudyPlan) -> LinePlot | None:
    """The epsilon of each price, over the number of patients."""
    lines = [
        Line(
            curve[0].asked,
            [
                (point.patients, point.epsilon)
                for point in curve
                if point.epsilon and _LEAST_EPSILON <= point.epsilon <= _MOST_EPSILON
            ],
            style,
        )
        for style, curve in enumerate(plan.curves)
        if curve[0].asked.startswith("price")
    ]
    return _plot(plan, lines, "epsilon", ratios=False)


def _plot(
    plan: StudyPlan, lines: list[Line], quantity: str, *, ratios: bool
) -> LinePlot | None:
    drawn = [line for line in lines if len(line.points) > 1]
    heights = [height for line in drawn for _, height in line.points]
    if not heights:
        return None
    up = ratios_axis([1.0, *heights]) if ratios else powers_axis(heights)
    low, high = up.low, up.high
    level = None if ratios or not low < NO_GUARANTEE_BEYOND < high else NO_GUARANTEE_BEYOND
    words = "; ".join(
        f"{line.label} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}"
        for line in drawn
    )
    return line_plot(
        drawn,
        _patients_axis(plan),
        up,
        alt=f"{quantity.capitalize()} over the number of patients: {words}.",
        level=level,
        dots=False,
    )


def _patients_axis(plan: StudyPlan) -> ValueAxis:
    numbers = [point.patients for point in plan.curves[0]]
    marks = [exact.patients for exact, _ in plan.table]
    axis = ValueAxis(numbers[0], numbers[-1], (), logarithmic=True)
    shown = sorted({numbers[0], *marks, numbers[-1]})
    return axis.with_ticks([(number, count_text(number)) for number in shown])
