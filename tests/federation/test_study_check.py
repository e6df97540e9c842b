from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from fedcox.errors import RefusedError
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.query import AbstractQuery
from fedcox.federation.study_check import RoundRecord, StudyPath
from fedcox.privacy.party import Party

NOBODY = cast(Party, None)  # no sum is added up where centers were lost


class Patient:
    """A study that asks for the same sums for ever."""

    def __init__(self) -> None:
        self.rounds: list[RoundRecord] = []

    def next_questions(
        self, rounds: Sequence[RoundRecord], centers: frozenset[str]
    ) -> Sequence[AbstractQuery[Any]]:
        self.rounds = list(rounds)
        return [CovariateSums()]


def answered(path: StudyPath, study: Patient, centers: str) -> None:
    path.check(study, [CovariateSums()], list(centers), None, NOBODY)
    path.answered([CovariateSums()], [3], list(centers))


def test_a_round_with_a_loss_needs_no_sum() -> None:
    path, study = StudyPath(), Patient()
    for centers in ("abcde", "abcd", "abc"):
        answered(path, study, centers)
    assert [record.centers for record in study.rounds] == [set("abcde"), set("abcd")]
    assert [record.replies for record in study.rounds] == [None, None]


def test_a_lost_center_does_not_come_back() -> None:
    path, study = StudyPath(), Patient()
    answered(path, study, "abcde")
    answered(path, study, "abcd")
    for centers in ("abcde", "abce"):
        with pytest.raises(RefusedError, match=r"lost is asked again"):
            answered(path, study, centers)


def test_a_refused_question_leaves_the_list_of_centers_as_short() -> None:
    path, study = StudyPath(), Patient()
    answered(path, study, "abcde")
    with pytest.raises(RefusedError, match=r"not what the study asks next"):
        path.check(study, [], list("abcd"), None, NOBODY)
    with pytest.raises(RefusedError, match=r"lost is asked again"):
        answered(path, study, "abcde")


def test_no_round_goes_on_from_a_sum_that_is_not_shown() -> None:
    path, study = StudyPath(), Patient()
    answered(path, study, "abc")
    with pytest.raises(RefusedError, match=r"\[questions\] study: the sum of the last round"):
        answered(path, study, "abc")
