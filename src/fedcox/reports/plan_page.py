"""What a plan says: in words, as a page with curves, and as a table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from fedcox.data.wording import listed
from fedcox.reports.guarantee_words import (
    NO_GUARANTEE_BEYOND,
    against_others,
    epsilon_explained,
    guesses_text,
    promise_in_a_word,
    weakness,
)
from fedcox.reports.number_text import (
    DASH,
    bound_text,
    count_text,
    noun_text,
    one_in_text,
    percent_text,
)
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plot import (
    Line,
    LinePlot,
    ValueAxis,
    ends_in_words,
    line_plot,
    log_axis,
    powers_axis,
    ratios_axis,
)
from fedcox.study.fit_rows import versions
from fedcox.study.power import NoiseChoice
from fedcox.study.study_plan import StudyPlan
from fedcox.survival.bounds import MOST_EPSILON

#: Ratios and epsilons beyond these are of no use, and would flatten the curves.
_MOST_RATIO, _LEAST_EPSILON, _MOST_EPSILON = 5.0, 0.1, 100.0


@dataclass(frozen=True)
class ChoiceLine:
    """One way to ask for noise, every cell as text; `promise` is what its epsilon is worth."""

    asked: str
    epsilon: str
    guesses: str
    price: str
    ratios: tuple[str, ...]
    promise: str
    own: bool


@dataclass(frozen=True)
class SizeLine:
    """One number of patients: what is told without noise, and with what the study asks for."""

    patients: str
    events: str
    exact: tuple[str, ...]
    noised: tuple[str, ...]
    follows: str  # epsilon, or where the study names that the factor on standard errors
    planned: bool


def choice_lines(plan: StudyPlan) -> list[ChoiceLine]:
    """From no noise to much."""
    return [
        ChoiceLine(
            choice.asked,
            _epsilon(choice),
            DASH if choice.epsilon is None else guesses_text(choice.epsilon, plan.delta),
            _factor(choice),
            _ratios(plan, choice),
            promise_in_a_word(choice.epsilon, plan.delta),
            choice.own,
        )
        for choice in plan.choices
    ]


def size_lines(plan: StudyPlan) -> list[SizeLine]:
    """From few patients to many."""
    return [
        SizeLine(
            count_text(exact.patients),
            count_text(exact.events),
            _ratios(plan, exact),
            _ratios(plan, noised),
            _factor(noised) if _names_epsilon(plan) else _epsilon(noised),
            exact.patients == plan.patients,
        )
        for exact, noised in plan.table
    ]


def compared_with(plan: StudyPlan) -> str:
    """What the table over patients has beside no noise."""
    return plan.table[0][1].asked


def what_follows(plan: StudyPlan) -> str:
    """The last column of the table over patients."""
    return "SE" if _names_epsilon(plan) else "epsilon"


def _names_epsilon(plan: StudyPlan) -> bool:
    return compared_with(plan).startswith("epsilon")


def headline(plan: StudyPlan) -> str:
    """Of how many, by what model."""
    centers = noun_text(plan.centers, "center")
    return (
        f"{count_text(plan.patients)} patients, {count_text(plan.events)} events, {centers}, "
        f"{noun_text(plan.coefficients, 'coefficient')}, {noun_text(plan.pieces, 'piece')}; "
        f"{'secure sums' if plan.masked else 'noise of each center alone'}, delta "
        f"{one_in_text(plan.delta)}"
    )


def readings(plan: StudyPlan) -> list[str]:
    """How the tables are to be read."""
    ratio = max(plan.own.smallest or plan.exact.smallest)
    return [
        "The smallest hazard ratio that is found: with a chance of "
        f"{percent_text(plan.power)}, at a two-sided level of {100 * plan.level:g} %. Below "
        f"one it is the inverse: {ratio_above(ratio)} stands for {1 / ratio:.2f}, too.",
        "Guesses: how often at most somebody is right who tosses a coin beforehand, and then "
        "guesses from all that was released whether a patient is in the study.",
        "A level is compared with all other patients, and is that of the share named; a number "
        "counts in standard deviations (SD) of its own. No covariate is correlated with the "
        "others: an R² with them makes the standard error 1 / √(1 − R²) times as large.",
        "A dash: the noise leaves no intervals, or no epsilon below "
        f"{MOST_EPSILON:g} has the price. A question mark: so few patients may leave none, "
        "where covariates are correlated or levels rare.",
        "SE: standard errors are those without noise times the factor that is given, at most: "
        "under secure sums however many centers there are.",
    ]


def notes(plan: StudyPlan) -> list[str]:
    """What nobody should miss, of what the study asks for."""
    noise = plan.own
    sentences = list(plan.remarks)
    if noise.epsilon is None or math.isinf(noise.epsilon):
        return sentences
    if weak := weakness(noise.epsilon, plan.delta):
        sentences.append(f"Epsilon {bound_text(noise.epsilon)}: {weak[0].lower()}{weak[1:]}")
    if noise.against_centers is not None:
        sentences.append(against_others(noise.against_centers, plan.delta))
    if plan.patients_for:
        needed = listed(
            f"{count_text(patients)} for epsilon {epsilon:g}"
            for epsilon, patients in plan.patients_for
        )
        sentences.append(f"At this price it takes about so many patients: {needed}.")
    return sentences


def ratio_above(ratio: float) -> str:
    """A smallest ratio, rounded up so that it is still found."""
    if ratio > 100.0:
        return ">100"
    decimals = 3 if ratio < 1.1 else 2
    return f"{math.ceil(ratio * 10**decimals - 1e-9) / 10**decimals:.{decimals}f}"


def _ratios(plan: StudyPlan, choice: NoiseChoice) -> tuple[str, ...]:
    if not choice.answers:
        return (DASH,) * len(plan.effects)
    doubt = " ?" if choice.unsure else ""
    return tuple(f"{ratio_above(ratio)}{doubt}" for ratio in choice.smallest)


def _factor(choice: NoiseChoice) -> str:
    return DASH if choice.price is None else f"× {choice.price:.2f}"


def _epsilon(choice: NoiseChoice) -> str:
    if choice.epsilon is None:
        return "none"
    return "∞" if math.isinf(choice.epsilon) else bound_text(choice.epsilon)


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
        "follows": what_follows(plan),
        "readings": readings(plan),
        "explained": epsilon_explained(plan.delta),
        "ratios": _ratio_plot(plan),
        "epsilons": _epsilon_plot(plan),
        "beyond": f"{NO_GUARANTEE_BEYOND:g}",
        "versions": versions(),
    }
    return page_html("plan.html.j2", content)


def _facts(plan: StudyPlan) -> list[Fact]:
    noise = plan.own
    epsilon = "∞" if noise.epsilon == math.inf else DASH
    if noise.epsilon is not None and math.isfinite(noise.epsilon):
        epsilon = bound_text(noise.epsilon)
    return [
        Fact(epsilon, "epsilon", noise.asked),
        Fact(
            _factor(noise),
            "standard errors",
            "at most",
        ),
        *(
            Fact(ratio_above(ratio) if noise.answers else DASH, "smallest ratio", effect.label)
            for effect, ratio in zip(plan.effects, noise.smallest, strict=False)
        ),
        Fact(
            ratio_above(plan.exact.smallest[0]),
            "smallest ratio without noise",
            plan.effects[0].label,
        ),
    ]


def _ratio_plot(plan: StudyPlan) -> LinePlot | None:
    """The smallest ratio of the first effect, over the number of patients."""
    lines = [
        Line(
            curve[0].asked,
            [(point.patients, point.smallest[0]) for point in curve if _has_smallest(point)],
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


def _has_smallest(point: NoiseChoice) -> bool:
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
    words = ends_in_words(drawn, "{:.3g}".format)
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
    shown = sorted({numbers[0], *marks, numbers[-1]})
    return log_axis([(number, count_text(number)) for number in shown])


def choice_table(plan: StudyPlan) -> Table:
    """One row for each way to ask for noise."""
    table = Table(
        title=escape(plan.name),
        title_justify="left",
        title_style="bold",
        caption=headline(plan),
        caption_justify="left",
    )
    table.add_column("noise", no_wrap=True)
    for header in ("epsilon", "guesses", "SE"):
        table.add_column(header, justify="right", no_wrap=True)
    for effect in plan.effects:
        table.add_column(effect.label, justify="right", min_width=4)
    table.add_column("promise", min_width=6)
    for line in choice_lines(plan):
        cells = (line.epsilon, line.guesses, line.price, *line.ratios, line.promise)
        asked = f"{line.asked} *" if line.own else line.asked
        table.add_row(asked, *cells, style="bold" if line.own else "")
    return table


def size_table(plan: StudyPlan) -> Table:
    """One row for each number of patients."""
    table = Table(title="With other numbers of patients", title_justify="left")
    for header in ("patients", "events"):
        table.add_column(header, justify="right", no_wrap=True)
    asked = compared_with(plan)
    for header in ("no noise", asked):
        for effect in plan.effects:
            table.add_column(f"{header}, {effect.label}", justify="right")
    table.add_column(what_follows(plan), justify="right", no_wrap=True)
    for line in size_lines(plan):
        cells = (line.patients, line.events, *line.exact, *line.noised, line.follows)
        table.add_row(*cells, style="bold" if line.planned else "")
    return table
