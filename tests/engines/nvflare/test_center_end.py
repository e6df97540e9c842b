"""A center's answers to messages: in order, as agreed, and with no error text in them."""

from __future__ import annotations

from typing import Any

import pytest

from fedcox.engines.codec.questions import encode_questions
from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.engines.nvflare.center_end import CenterEnd, OpenStudy, reason_of, rules_in
from fedcox.engines.nvflare.messages import (
    PROTOCOL,
    REASONS,
    Heading,
    Refusal,
    Step,
    read_answer,
    request,
)
from fedcox.errors import (
    BudgetError,
    CohortError,
    MessageError,
    RefusedError,
    SecureSumError,
)
from fedcox.federation.center import Center
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.query import AbstractQuery
from tests.engines.nvflare.direct_transport import ASKED, OpenAdmission
from tests.problems import simulated

RUN = b"r" * 16
SECRET = "Ada Lovelace, 1815-12-10"
INVITATION: dict[str, Tree] = {
    "protocol": PROTOCOL,
    "version": "0",
    "study": "",
    "centers": ["A"],
    "identities": {},
}


def site(**changes: Any) -> CenterEnd:
    study = OpenStudy(Center("A", simulated(50)), ASKED, b"schema")
    return CenterEnd("A", OpenAdmission(OpenStudy(**{**vars(study), **changes})))


def told(
    at: CenterEnd, number: int, step: Step, body: Tree, run: bytes = RUN
) -> Tree | Refusal:
    heading = Heading(run, number, step)
    return read_answer(at.handle(request(heading, body)), heading)


def asking(*queries: AbstractQuery[Any]) -> Tree:
    questions = encode_questions(queries or [CovariateSums()], ())
    return {"questions": to_bytes(questions), "first": 0, "centers": ["A"]}


def test_questions_before_a_study_was_taken_are_refused() -> None:
    assert told(site(), 1, "ask", asking()) == Refusal("order")


def test_a_message_is_answered_once() -> None:
    here = site()
    told(here, 1, "study", INVITATION)
    assert isinstance(told(here, 2, "ask", asking()), dict)
    assert told(here, 2, "ask", asking()) == Refusal("order")
    assert told(here, 1, "ask", asking()) == Refusal("order")
    assert isinstance(told(here, 3, "ask", asking()), dict)


def test_a_message_of_another_run_is_refused() -> None:
    here = site()
    told(here, 1, "study", INVITATION)
    assert told(here, 2, "ask", asking(), run=b"s" * 16) == Refusal("order")


def test_a_question_that_the_study_does_not_ask_is_refused() -> None:
    here = site(asked=frozenset({"covariate sums"}))
    told(here, 1, "study", INVITATION)
    refused = told(here, 2, "ask", asking(CovariateSums(), OutcomeCounts()))
    assert refused == Refusal("order", ("questions",))


def test_a_question_about_other_intervals_than_the_study_s_is_refused() -> None:
    here = site(allows=lambda query, centers: query.name != "patients and events")
    told(here, 1, "study", INVITATION)
    assert isinstance(told(here, 2, "ask", asking()), dict)
    refused = told(here, 3, "ask", asking(OutcomeCounts()))
    assert refused == Refusal("order", ("intervals and model",))


def test_under_noise_nothing_is_answered_without_it() -> None:
    here = site(noise_only=True)
    told(here, 1, "study", INVITATION)
    assert told(here, 2, "ask", asking()) == Refusal("order", ("noise",))


def test_steps_of_secure_sums_are_refused_where_none_were_agreed() -> None:
    here = site()
    told(here, 1, "study", INVITATION)
    steps: tuple[Step, ...] = ("keys", "masked", "release")
    for number, step in enumerate(steps, start=2):
        assert told(here, number, step, b"") == Refusal("order")


def test_another_protocol_is_another_version() -> None:
    assert told(site(), 1, "study", {**INVITATION, "protocol": PROTOCOL + 1}) == Refusal(
        "version"
    )


class PlantedError(Exception):
    """An error whose text names a patient."""


class BrokenCenter(Center):
    def answer(self, query: Any, **_: Any) -> Any:
        raise PlantedError(SECRET)


@pytest.mark.parametrize(
    "error",
    [
        PlantedError(SECRET),
        ValueError(SECRET),
        CohortError(SECRET, [SECRET]),
        RefusedError(SECRET, [f"exact_sums: {SECRET}", SECRET, f"[{SECRET}]: no"]),
        BudgetError(SECRET, [SECRET]),
        SecureSumError(SECRET),
        MessageError(SECRET, [SECRET]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_told_of_an_error_holds_nothing_of_its_text(error: Exception) -> None:
    refused = reason_of(error)
    assert SECRET not in refused.words
    assert refused.reason in REASONS


def test_an_error_while_answering_stays_at_home() -> None:
    broken = BrokenCenter("A", simulated(50))
    here = site(center=broken)
    told(here, 1, "study", INVITATION)
    answer = here.handle(request(Heading(RUN, 2, "ask"), asking()))
    assert SECRET.encode() not in answer
    assert b"Lovelace" not in answer
    assert from_bytes(answer)["refused"] == {"reason": "fault", "rules": []}  # type: ignore[call-overload,index]
    assert isinstance(here.admission, OpenAdmission)
    (kept,) = here.admission.troubles
    assert str(kept) == SECRET


@pytest.mark.parametrize("message", [b"", b"x", b"\x00" * 100, b"{}"])
def test_noise_on_the_line_is_refused_and_harms_nothing(message: bytes) -> None:
    here = site()
    told(here, 1, "study", INVITATION)
    heading = Heading(RUN, 2, "ask")
    assert read_answer(here.handle(message), heading) == Refusal("message")
    assert isinstance(told(here, 2, "ask", asking()), dict)


def test_rules_are_named_without_what_was_counted() -> None:
    error = RefusedError(
        "No.", ["exact_sums: 3 patients", "rounds: x", "word: y", "exact_sums of 3: no"]
    )
    assert rules_in(error) == ("exact_sums", "rounds")


def test_what_leaves_is_written_down_first() -> None:
    here = site()
    told(here, 1, "study", INVITATION)
    told(here, 2, "ask", asking(CovariateSums(), OutcomeCounts()))
    assert isinstance(here.admission, OpenAdmission)
    assert [row.question for row in here.admission.left] == [
        "covariate sums",
        "patients and events",
    ]
    assert all(row.protection == "none" and row.numbers > 0 for row in here.admission.left)
