"""Which questions are the same to a center that remembers: those whose replies are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.errors import RefusedError
from fedcox.federation.batch import PatientBatch
from fedcox.federation.center import Center
from fedcox.federation.digest import digest
from fedcox.federation.evidence import Evidence
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.privacy.study_memory import StudyMemory
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.engines.test_masked import cohort

COHORT = cohort(80, seed=3)
GRID = TimeGrid.regular(300.0, 900.0)
ABC = frozenset("ABC")


def setting(evidence: bytes | None = None) -> Setting:
    mean, spread = COHORT.covariates.mean(axis=0), COHORT.covariates.std(axis=0)
    return Setting(
        GRID,
        np.ones(3, np.bool_),
        "include",
        LINKS["cloglog"],
        Scaling(np.arange(4), mean, spread),
        evidence=None if evidence is None else Evidence(GRID, (b"before",), evidence),
    )


def gradient(beta: float = 0.0, evidence: bytes | None = None, **more: Any) -> DerivativesAt:
    agreed = setting(evidence)
    return DerivativesAt(agreed, np.full(3, -2.0), np.full(4, beta), Detail.GRADIENT, **more)


@contextmanager
def restarted(folder: Path) -> Iterator[Center]:
    with StudyMemory(folder / "study") as memory:
        memory.bind(COHORT)
        yield Center("A", COHORT, gate=Gate(Policy.without_limits(), memory))


def rounds(center: Center) -> int:
    assert center.gate is not None
    return center.gate.rounds


def counts(
    folder: Path, first: AbstractQuery[Any], second: AbstractQuery[Any], **how: Any
) -> bool:
    """Whether the second question, in the next job, counts as another one."""
    with restarted(folder) as center:
        center.answer(first)
        assert rounds(center) == 1
    with restarted(folder) as center:
        center.answer(second, **how)
        return rounds(center) == 2


def test_the_same_question_in_the_next_job_is_not_counted(tmp_path: Path) -> None:
    assert not counts(tmp_path, gradient(0.1), gradient(0.1))


@pytest.mark.parametrize(
    "other",
    [
        gradient(float(np.nextafter(0.1, 1.0))),
        gradient(0.1, batch=PatientBatch(1, 1, 40, 80)),
        replace(gradient(0.1), detail=Detail.HESSIAN),
        replace(gradient(0.1), alpha=np.full(3, -2.5)),
        replace(gradient(0.1), agreed=replace(setting(), reading="half")),
        replace(gradient(0.1), agreed=replace(setting(), leavers=np.full((2, 4), 50))),
    ],
)
def test_another_question_is_counted(tmp_path: Path, other: DerivativesAt) -> None:
    assert counts(tmp_path, gradient(0.1), other)


def test_what_a_question_is_checked_by_does_not_make_it_another(tmp_path: Path) -> None:
    """A transcript is of one session, and a restarted study has a new one."""
    assert digest(gradient(0.1, b"one")) != digest(gradient(0.1, b"two"))
    assert not counts(tmp_path, gradient(0.1, b"one"), gradient(0.1, b"two"))


def test_covariate_scatter_likewise(tmp_path: Path) -> None:
    mean = np.zeros(4)
    with restarted(tmp_path) as center:
        for transcript in (b"one", b"two"):
            evidence = Evidence(GRID, (), transcript)
            center.answer(CovariateScatter(mean, np.full(4, 80.0), evidence))
        center.answer(CovariateScatter(mean + 1.0, np.full(4, 80.0), evidence))
    with StudyMemory(tmp_path / "study") as memory:
        assert len(memory.now.answered.admitted) == 2


@pytest.mark.parametrize(
    "how",
    [{"masked": True, "among": ABC}, {"masked": True, "among": ABC - {"C"}}, {"masked": True}],
    ids=["masked", "among fewer", "among unnamed"],
)
def test_other_eyes_make_another_question(tmp_path: Path, how: dict[str, Any]) -> None:
    assert counts(tmp_path, gradient(0.1), gradient(0.1), **how)


def test_sums_over_other_centers_are_others(tmp_path: Path) -> None:
    with restarted(tmp_path) as center:
        for among in (ABC, ABC | {"D"}, ABC, ABC | {"D"}):
            center.answer(gradient(0.1), masked=True, among=among)
        assert rounds(center) == 2


def test_a_batch_of_renumbered_patients_is_another(tmp_path: Path) -> None:
    """Else a coordinator that numbers the patients anew chooses who is in the batch."""
    batch = PatientBatch(seed=1, step=1, size=60, population=200)
    with restarted(tmp_path) as center:
        for _ in range(2):
            center.answer(gradient(0.1, batch=batch))
            center.answer(gradient(0.1))
        moved = replace(center, cohort=replace(COHORT, number=COHORT.number + 100))
        assert rounds(moved) == 2
        moved.answer(gradient(0.1))  # a sum over everybody is the same sum
        assert rounds(moved) == 2
        moved.answer(gradient(0.1, batch=batch))
        assert rounds(moved) == 3


def test_replies_do_not_change_by_being_remembered(tmp_path: Path) -> None:
    with restarted(tmp_path) as center:
        first = center.answer(gradient(0.1))
        again = center.answer(gradient(0.1))
    plain = Center("A", COHORT).answer(gradient(0.1))
    for found in (first, again):
        np.testing.assert_array_equal(found.beta, plain.beta)
        np.testing.assert_array_equal(found.alpha, plain.alpha)


def test_a_disk_that_cannot_be_written_is_told_in_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restarted(tmp_path) as center:
        monkeypatch.setattr(
            "os.fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "full"))
        )
        with pytest.raises(RefusedError, match=r"full\. Give the center room"):
            center.answer(gradient(0.1))
