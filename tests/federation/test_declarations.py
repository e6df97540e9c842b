"""Whatever may be asked has a name that a policy knows, and words for ledger and approval."""

from __future__ import annotations

import re
from typing import get_origin

import numpy as np
import pytest

from fedcox.federation.policy import Policy
from fedcox.federation.queries import (
    all_queries,
    answered_by_default,
    answered_if_named,
    may_travel,
    patient_level,
    words_of_queries,
)
from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery, answer_type
from fedcox.study.asked import question_words
from tests.docs.pages import DOCS
from tests.engines.codec.examples import QUESTIONS as EXAMPLES


def test_the_name_of_a_question_is_one_of_those_that_it_declares() -> None:
    for query in EXAMPLES.values():
        assert type(query).names()[query.name] == words_of_queries()[query.name]
        assert question_words(query.name).endswith(words_of_queries()[query.name])


def test_a_name_has_the_same_words_wherever_it_is_declared() -> None:
    for kind in all_queries():
        assert kind.words, kind
        for name, words in kind.names().items():
            assert words == words_of_queries()[name]


def test_times_of_single_patients_do_not_pass_as_sums() -> None:
    assert patient_level() >= {"longest follow-up", "distinct event times", "recorded unit"}
    for name in patient_level():
        assert question_words(name).startswith("not a sum: ")


def test_the_page_tells_what_leaves_in_the_words_of_the_declarations() -> None:
    page = (DOCS / "explanation-what-leaves-a-hospital.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*([^*]+)\* \| .*? \| (.*) \| .*? \|$", page, flags=re.MULTILINE)
    needed = {
        name: f"{'**not a sum:** ' if name in patient_level() else ''}{words}"
        for name, words in words_of_queries().items()
    }
    wrong = [
        name for name, cell in rows if not cell.startswith(needed.get(name, "no question"))
    ]
    told = {name for name, _ in rows}
    missing = [name for kind in may_travel() for name in kind.words if name not in told]
    must_be = [f"| *{name}* | … | {needed.get(name)} | … |" for name in (*wrong, *missing)]
    assert not must_be, "The page must say:\n" + "\n".join(must_be)


def test_what_is_answered_by_default_was_argued_for() -> None:
    """A change here changes what every hospital without a list of its own gives away."""
    assert set(answered_by_default()) == {
        *("patients and events", "covariate sums", "covariate scatter"),
        *("longest follow-up", "last interval", "interval counts", "fractional times"),
        *("gradient", "diagonal", "block", "hessian", "information", "compressed gradient"),
        *("noised life table", "noised covariate moments", "noised covariate products"),
        *("noised event moments", "noised score", "noised information"),
        *("clipped network gradient", "clipped network gradient of a sample"),
    }
    assert Policy().questions == answered_by_default()


def test_a_kind_of_question_is_answered_by_default_or_by_its_name() -> None:
    for kind in may_travel():
        for name in kind.words:
            assert (name in answered_by_default()) != (name in answered_if_named())


def test_no_experiment_and_no_part_of_the_patients_is_answered_by_default() -> None:
    for kind in all_queries():
        allowed = set(kind.names()) & set(answered_by_default())
        if kind.experimental:
            assert not allowed
        elif not issubclass(kind, AbstractPrivateQuery):
            assert allowed <= set(kind.words)


def test_a_query_says_what_its_answer_is() -> None:
    with pytest.raises(TypeError, match="_Unclear does not say what its answer is"):
        answer_type(_Unclear)
    assert answer_type(type(EXAMPLES["last interval"])) is int
    assert get_origin(answer_type(type(EXAMPLES["noised score"]))) is np.ndarray


class _Unclear(AbstractQuery):  # type: ignore[type-arg]
    """Says nothing."""
