"""What a plan says, in words and in the texts of its tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcox.data.wording import listed
from fedcox.reports.guarantee_words import (
    against_others,
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
from fedcox.study.noised_fit import MOST_EPSILON
from fedcox.study.study_plan import NoiseChoice, StudyPlan


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
    epsilon: str
    planned: bool


def choice_lines(plan: StudyPlan) -> list[ChoiceLine]:
    """From no noise to much."""
    return [
        ChoiceLine(
            choice.asked,
            _epsilon(choice),
            DASH if choice.epsilon is None else guesses_text(choice.epsilon, plan.delta),
            DASH if choice.price is None else f"× {choice.price:.2f}",
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
            _epsilon(noised),
            exact.patients == plan.patients,
        )
        for exact, noised in plan.table
    ]


def compared_with(plan: StudyPlan) -> str:
    """What the table over patients has beside no noise."""
    return plan.table[0][1].asked


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
    own = plan.own
    said = list(plan.remarks)
    if own.epsilon is None or math.isinf(own.epsilon):
        return said
    if weak := weakness(own.epsilon, plan.delta):
        said.append(f"Epsilon {bound_text(own.epsilon)}: {weak[0].lower()}{weak[1:]}")
    if own.against_centers is not None:
        said.append(against_others(own.against_centers, plan.delta))
    if plan.patients_for:
        needed = listed(
            f"{count_text(patients)} for epsilon {epsilon:g}"
            for epsilon, patients in plan.patients_for
        )
        said.append(f"At this price it takes about so many patients: {needed}.")
    return said


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


def _epsilon(choice: NoiseChoice) -> str:
    if choice.epsilon is None:
        return "none"
    return "∞" if math.isinf(choice.epsilon) else bound_text(choice.epsilon)
