from __future__ import annotations

import pytest

pytest.importorskip("nvflare")
from benchmarks.private_time import Measured, StudyTime, named
from fedcox.study.study_tables import Noise

PLAIN = StudyTime(False, 8, 9, 6.0, 1.0, True)
PRIVATE = StudyTime(True, 11, 26, 6.0, 2.0, True)


def measured(*seconds: tuple[float, float]) -> Measured:
    studies = [
        StudyTime(each.private, each.rounds, each.messages, each.start, time, each.arrived)
        for pair in seconds
        for each, time in zip((PLAIN, PRIVATE), pair, strict=True)
    ]
    return Measured("2026-03-01", 2, 5, 15_000, tuple(studies))


def test_the_ratio_is_that_of_the_studies_in_the_middle() -> None:
    found = measured((1.0, 9.0), (2.0, 4.0), (50.0, 3.0))
    assert found.ratio == 2.0
    assert "private over plain, at most 2.5: 2.00" in list(found.lines())


def test_no_two_studies_are_the_same_and_one_kind_is_private() -> None:
    plain, private = (named(1, 15_000, private=which) for which in (False, True))
    assert plain.privacy.noise == "none"
    assert plain.privacy.secure_sums is False
    assert private.privacy.secure_sums is True
    assert isinstance(private.privacy.noise, Noise)
    assert private.privacy.noise.price == 0.05
    assert private != named(2, 15_000, private=True)
