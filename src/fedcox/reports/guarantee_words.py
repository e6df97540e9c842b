"""What differential privacy promises a patient of this study, and what not, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedcox.reports.number_text import bound_text, count_text, one_in_text
from fedcox.study.fit_rows import Guarantee

#: Above this chance of a right guess a page must not call the promise strong.
_NEARLY_SURE = 0.95
#: Beyond this epsilon there is no promise to speak of.
NO_GUARANTEE_BEYOND = 10.0
#: And up to this one it is strong.
_STRONG = 1.0
_LARGEST = 700.0  # the exponential of more is beyond all numbers

NO_INFERENCE = (
    "Noise was added to every sum, and the fit did not arrive: how much of these results is "
    "noise cannot be told, and standard errors, intervals and p-values would be wrong. An "
    "exact concordance, or exact counts of patients or events, would break the promise. So "
    "none of these is given."
)
_WITH_INFERENCE = (
    "Noise was added to every sum, and standard errors, intervals and p-values count it in: it "
    "makes standard errors {price} times as large as they would be without. Exact counts of "
    "patients or events, or an exact concordance, would break the promise and are not given."
)
ONE_STUDY = (
    "It is for this one study: every other study or run on the same patients adds its own "
    "epsilon and delta. It is for one patient, not for groups: for two, as a couple, epsilon "
    "counts twice, and so on."
)
BEYOND = (
    "What the study finds about people like a patient is learned with or without that patient. "
    "All that the study file says, such as ranges, intervals and about how many patients take "
    "part, and the names of the centers are taken to be public. What a center writes down or "
    "passes on by other ways is not covered."
)
#: Of an epsilon, at the end of a sentence.
_WORTHLESS = (
    "it is no guarantee worth the name. What is left is that no sum is exact, so that patients "
    "cannot be computed from sums as they can be from exact ones."
)


@dataclass(frozen=True)
class TitledText:
    """What a reader must know, under its heading: a part of the promise, say."""

    title: str
    text: str


def promises(guarantee: Guarantee) -> list[TitledText]:
    """The parts in the order a reader needs them."""
    return [
        TitledText("For one patient", one_patient(guarantee)),
        TitledText("How it is kept", _how(guarantee)),
        TitledText("Against whom", _against_whom(guarantee)),
        TitledText("What is not promised", f"{ONE_STUDY} {BEYOND}"),
        _cost(guarantee),
    ]


def promises_in_short(guarantee: Guarantee) -> list[TitledText]:
    """What nobody should miss."""
    centers = [TitledText("Against other centers", against_centers(guarantee))]
    return [
        TitledText("For one patient", one_patient(guarantee)),
        *(centers if guarantee.masked else []),
        TitledText("What is not promised", ONE_STUDY),
        _cost(guarantee),
    ]


def _cost(guarantee: Guarantee) -> TitledText:
    """What noise leaves of the results."""
    if guarantee.price is None:
        return TitledText("No intervals, no p-values, no counts", NO_INFERENCE)
    price = f"{guarantee.price:.2f}"
    return TitledText("What it costs", _WITH_INFERENCE.format(price=price))


def one_patient(guarantee: Guarantee) -> str:
    """Epsilon and delta as a factor of chances, and as the success of a guess."""
    factor = bound_text(math.exp(min(guarantee.epsilon, _LARGEST)))
    weak = weakness(guarantee.epsilon, guarantee.delta)
    return (
        "With or without any one patient, the chance of every possible result of this study "
        f"differs by a factor of at most {factor} (e to the power of epsilon, "
        f"{bound_text(guarantee.epsilon)}), plus at most {one_in_text(guarantee.delta)} "
        "(delta). So somebody who guesses from everything that was released whether a given "
        "patient is in it, with even odds beforehand, "
        f"{_right(guarantee.epsilon, guarantee.delta)}, against 50 % by tossing a coin."
        f"{weak and f' {weak}'}"
    )


def weakness(epsilon: float, delta: float) -> str:
    """What must be said of an epsilon that is large; empty for one that is not."""
    if epsilon > NO_GUARANTEE_BEYOND:
        return f"An epsilon this large promises little: {_WORTHLESS}"
    if _chance(epsilon, delta) > _NEARLY_SURE:
        return "An epsilon this large promises little."
    return ""


def promise_in_a_word(epsilon: float | None, delta: float) -> str:
    """The same for a cell of a table; empty where there is no epsilon at all."""
    if epsilon is None:
        return ""
    if epsilon > NO_GUARANTEE_BEYOND:
        return "none"
    if weakness(epsilon, delta):
        return "little"
    return "strong" if epsilon <= _STRONG else "fair"


def epsilon_explained(delta: float) -> list[TitledText]:
    """What epsilon means and from where on it means nothing, for who has to choose one."""
    return [
        TitledText(
            "What epsilon means",
            "Epsilon bounds what the presence of any one patient can show. With or without "
            "the patient, the chance of every possible result of the study differs by a factor "
            f"of at most e to the power of epsilon, plus at most {one_in_text(delta)} (delta). "
            "That holds whatever else somebody knows, be it all other patients.",
        ),
        TitledText(
            "From where on it is no guarantee",
            "Somebody guesses from everything that was released whether a given patient is in "
            f"the study, and tosses a coin beforehand. At epsilon {_STRONG:g} at "
            f"most {guesses_text(_STRONG, delta)} of such guesses are right, at 3 already "
            f"{guesses_text(3.0, delta)}, at {NO_GUARANTEE_BEYOND:g} even "
            f"{guesses_text(NO_GUARANTEE_BEYOND, delta)}. Up to {_STRONG:g} the promise is "
            "strong; from 3 "
            f"on it is little; beyond {NO_GUARANTEE_BEYOND:g} {_WORTHLESS}",
        ),
        TitledText("What is not promised", ONE_STUDY),
    ]


def against_centers(guarantee: Guarantee) -> str:
    """What is left of the promise where noise is added in parts, and others know theirs."""
    return against_others(guarantee.epsilon_against_centers, guarantee.delta)


def against_others(epsilon: float | None, delta: float) -> str:
    """The same of an epsilon against all other centers together; None where nobody knows it."""
    known = "Against all other centers together, who know the parts of the noise they added, "
    if epsilon is None:
        return f"{known}epsilon is larger."
    if math.isinf(epsilon):
        return f"{known}epsilon is beyond all that is counted: nothing is promised."
    return (
        f"{known}epsilon is {bound_text(epsilon)}, and such a guess {_right(epsilon, delta)}."
    )


def _right(epsilon: float, delta: float) -> str:
    """How often a guess is right; where that is nearly always, without a number."""
    if _chance(epsilon, delta) > _NEARLY_SURE:
        return "may be right nearly every time"
    return f"is right in at most {guesses_text(epsilon, delta)} of cases"


def epsilon_and_delta(guarantee: Guarantee) -> str:
    """The two numbers, for a heading."""
    delta = one_in_text(guarantee.delta)
    return f"epsilon {bound_text(guarantee.epsilon)}, delta {delta}"


def chance_of_right_guess(guarantee: Guarantee) -> float:
    """The most that a test of "in or not" can be right at even odds: (e^ε + δ) / (e^ε + 1)."""
    return _chance(guarantee.epsilon, guarantee.delta)


def right_guesses_text(guarantee: Guarantee) -> str:
    """That chance in per cent, rounded up so that it still holds."""
    return guesses_text(guarantee.epsilon, guarantee.delta)


def guesses_text(epsilon: float, delta: float) -> str:
    """The same of an epsilon that nobody has promised yet."""
    chance = 100 * _chance(epsilon, delta)
    decimals = 1 if chance <= 99.9 else 3
    unit = 10**decimals
    bound = math.ceil(unit * chance - 1e-8) / unit
    return f"{bound:.{decimals}f} %" if bound < 100.0 else "100 %"


def _chance(epsilon: float, delta: float) -> float:
    odds = math.exp(min(epsilon, _LARGEST))
    return min(1.0, (odds + delta) / (odds + 1))


def _how(guarantee: Guarantee) -> str:
    whose = (
        "once to the sum over all centers, a part of it by each center"
        if guarantee.masked
        else "by each center to its own sums"
    )
    return (
        "What one patient adds to a sum is bounded, by weights and a time until which the "
        "patient counts that do not look at what happens to it, so that nothing is biased. "
        f"Then random noise is added, {whose}. There were {count_text(guarantee.releases)} "
        "such sums, each over all patients; together they are one sum with noise of "
        f"{guarantee.noise:.3g} times the bound, which epsilon and delta stand for."
    )


def _against_whom(guarantee: Guarantee) -> str:
    readers = (
        "It holds for what the coordinator sees, and so for everything on this page, whatever "
        "else somebody knows and whatever is computed from it later."
    )
    if not guarantee.masked:
        return f"{readers} It also holds against the other centers."
    return (
        f"{readers} {against_centers(guarantee)} That is so with the coordinator's help, too."
    )
