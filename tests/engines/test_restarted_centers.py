"""Whole studies over centers that restart between jobs, and a coordinator that uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import LocalMaskedCenters, Masked
from fedcox.errors import BudgetError, RefusedError, SecureSumError
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter, MaskedReply
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.bounded_sums import NoisedMoments
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.query import AbstractQuery
from fedcox.privacy.identity import Identity
from fedcox.privacy.noise import GaussianRelease
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.privacy.study_memory import StudyMemory
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.scaling import Scaling
from tests.engines.test_masked import cohorts, study

NEWTON = Plan.of(study("newton"))
OPEN = Policy(exact_sums=True)


class Stopped(Exception):  # noqa: N818 - the power, no error
    """The coordinator or a line breaks off here."""


class Breaking(LocalMaskedCenters):
    """Breaks off before the given message, or after; centers `lost` answer no more."""

    at: int = 10**9
    lost: Sequence[str] = ()
    messages: int = 0

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        self._count()
        there = {name: text for name, text in messages.items() if name not in self.lost}
        return super().exchange(step, there)

    def ask(
        self, shares: Mapping[str, bytes], queries: Sequence[AbstractQuery[Any]], number: int
    ) -> dict[str, MaskedReply]:
        self._count()
        replies = super().ask(shares, queries, number)
        return {name: reply for name, reply in replies.items() if name not in self.lost}

    def _count(self) -> None:
        self.messages += 1
        if self.messages == self.at:
            raise Stopped


@dataclass
class Hospitals:
    """Their files, keys and disks; every job makes their processes anew."""

    folder: Path
    parts: Mapping[str, Cohort]
    policy: Policy = OPEN
    noise: Callable[[StudyMemory], NoisedReplies] | None = None
    memories: dict[str, StudyMemory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.identities = {name: Identity.create() for name in self.parts}
        self.known = {name: identity.public for name, identity in self.identities.items()}

    def restart(self) -> list[Center]:
        for memory in self.memories.values():
            memory.close()
        self.memories = {name: StudyMemory(self.folder / name) for name in self.parts}
        centers = [
            Center(
                center.name,
                center.cohort,
                gate=Gate(self.policy, self.memories[center.name]),
                noise=None if self.noise is None else self.noise(self.memories[center.name]),
            )
            for center in InProcess.from_cohorts(self.parts).centers
        ]
        for center in centers:
            self.memories[center.name].bind(center.cohort)
        return centers

    def job(self, *, at: int = 10**9, without: Sequence[str] = ()) -> tuple[Masked, Breaking]:
        """A job of a coordinator under secure sums."""
        masked = [
            MaskedCenter(
                center,
                SecureSumCenter(
                    center.name,
                    "study",
                    self.identities[center.name],
                    self.known,
                    memory=self.memories[center.name],
                ),
            )
            for center in self.restart()
        ]
        centers = Breaking(masked)
        centers.at, centers.lost = at, without
        return Masked("study", self.known, centers), centers

    def counts(self) -> set[int]:
        return {memory.now.answered for memory in self.memories.values()}


def test_a_study_that_is_sent_again_is_answered_again_and_counts(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, cohorts(3, 120))
    first = estimate(NEWTON, hospitals.job()[0])
    ((once,),) = [hospitals.counts()]
    again = estimate(NEWTON, hospitals.job()[0])
    np.testing.assert_array_equal(again.inference.coefficients, first.inference.coefficients)
    np.testing.assert_array_equal(again.inference.covariance, first.inference.covariance)
    assert hospitals.counts() == {2 * once}
    hospitals.policy = Policy(exact_sums=True, rounds=2 * once + 1)
    with pytest.raises(RefusedError, match=r"rounds: "):
        estimate(NEWTON, hospitals.job()[0])


def test_broken_off_anywhere_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = Hospitals(tmp_path / "whole", cohorts(3, 120))
    masked, centers = whole.job()
    expected = estimate(NEWTON, masked)
    broken = Hospitals(tmp_path / "broken", whole.parts)
    for at in range(1, centers.messages + 1):
        with pytest.raises(Stopped):
            estimate(NEWTON, broken.job(at=at)[0])
    found = estimate(NEWTON, broken.job()[0])
    np.testing.assert_array_equal(found.inference.coefficients, expected.inference.coefficients)


def test_one_center_after_the_other_cannot_be_lost(tmp_path: Path) -> None:
    """Each would be told by subtraction: its covariate sums."""
    hospitals = Hospitals(tmp_path, cohorts(5, 80))
    sums: dict[tuple[str, ...], Any] = {}
    names = sorted(hospitals.parts)
    masked, _ = hospitals.job()
    sums[()] = _first(masked)
    refusals = 0
    for lost in names:
        try:
            masked, centers = hospitals.job()
            centers.lost = (lost,)
            sums[(lost,)] = _first(masked)
        except SecureSumError:
            refusals += 1
    assert refusals == 4
    assert list(sums) == [(), (names[0],)]


def _first(masked: Masked) -> Any:
    return masked.ask_together([CovariateSums()])


def test_a_center_may_come_back_where_all_are_needed(tmp_path: Path) -> None:
    """It is killed when the others have answered; nothing is opened; the job is sent again."""
    hospitals = Hospitals(tmp_path, cohorts(4, 90))
    expected = estimate(NEWTON, Hospitals(tmp_path / "whole", hospitals.parts).job()[0])
    # Two messages of the set-up, two rounds of two, masked replies, and no release.
    with pytest.raises(Stopped):
        estimate(NEWTON, hospitals.job(at=8)[0])
    found = estimate(NEWTON, hospitals.job()[0])
    np.testing.assert_array_equal(found.inference.coefficients, expected.inference.coefficients)


def test_changed_patients_are_refused_in_the_next_job(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, cohorts(3, 120))
    _first(hospitals.job()[0])
    name = min(hospitals.parts)
    part = hospitals.parts[name]
    fewer = Cohort(part.covariates[1:], part.time[1:], part.event[1:])
    hospitals.parts = {**hospitals.parts, name: fewer}
    with pytest.raises(RefusedError, match=r"patients have changed"):
        hospitals.job()


RELEASE = GaussianRelease(8.0, 1.0, releases=4, fewest_centers=3)
MOMENTS = NoisedMoments(
    Scaling(np.arange(4), np.zeros(4), np.ones(4)), np.ones(4, dtype=np.bool_), RELEASE
)


def noisy(tmp_path: Path, centers: int = 5) -> Hospitals:
    return Hospitals(
        tmp_path,
        cohorts(centers, 60),
        Policy.without_limits(),
        noise=lambda memory: NoisedReplies("study", 1e-5, memory=memory),
    )


def test_a_noised_sum_is_the_same_in_the_next_job(tmp_path: Path) -> None:
    hospitals = noisy(tmp_path)
    first = MOMENTS.pack(hospitals.job()[0].ask(MOMENTS))
    for _ in range(5):
        np.testing.assert_array_equal(MOMENTS.pack(hospitals.job()[0].ask(MOMENTS)), first)


ANOTHER = replace(MOMENTS, scaling=Scaling(np.arange(4), np.full(4, 1.0), np.ones(4)))


def test_both_noised_sums_of_a_round_are_the_same_in_the_next_job(tmp_path: Path) -> None:
    hospitals = noisy(tmp_path)
    first = hospitals.job()[0].ask_together([MOMENTS, ANOTHER])
    again = hospitals.job()[0].ask_together([MOMENTS, ANOTHER])
    np.testing.assert_array_equal(first, again)
    rights = hospitals.memories["c00"].now.noised.rights
    assert [right.used for right in rights.values()] == [2]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([MOMENTS], [MOMENTS]),
        ([MOMENTS], [MOMENTS, ANOTHER]),
        ([MOMENTS], [ANOTHER, MOMENTS]),
        ([ANOTHER], [MOMENTS, ANOTHER]),
        ([MOMENTS, ANOTHER], [MOMENTS]),
        ([MOMENTS, ANOTHER], [MOMENTS, ANOTHER]),
    ],
)
def test_the_same_noise_is_in_no_sum_over_fewer_centers(
    tmp_path: Path, first: Sequence[NoisedMoments], then: Sequence[NoisedMoments]
) -> None:
    """Their difference would be the lost center's reply, with its own part of the noise."""
    hospitals = noisy(tmp_path)
    hospitals.job()[0].ask_together(first)
    masked, centers = hospitals.job()
    centers.lost = ("c03",)
    with pytest.raises(SecureSumError, match=r"repeats noise"):
        masked.ask_together(then)


def test_a_noised_sum_over_others_is_another_and_counts(tmp_path: Path) -> None:
    hospitals = noisy(tmp_path)
    whole = MOMENTS.pack(hospitals.job()[0].ask(MOMENTS))
    own = {name: hospitals.memories[name].now.noised.last[-1] for name in hospitals.parts}
    found = MOMENTS.pack(hospitals.job(without=["c03"])[0].ask(MOMENTS))
    for name in sorted(set(hospitals.parts) - {"c03"}):
        noised = hospitals.memories[name].now.noised
        before, after = own[name], noised.last[-1]
        assert (before.reply != after.reply).all()
        assert [right.used for right in noised.rights.values()] == [2]
    lost = own["c03"]
    assert (np.abs(whole - found - lost.reply) > 0).all()


def test_no_more_noised_sums_than_were_paid_for_over_all_jobs(tmp_path: Path) -> None:
    hospitals = noisy(tmp_path, centers=3)
    for job in range(RELEASE.releases):
        moved = replace(MOMENTS, scaling=Scaling(np.arange(4), np.full(4, job), np.ones(4)))
        hospitals.job()[0].ask(moved)
    with pytest.raises(BudgetError, match=r"all the noised sums"):
        hospitals.job()[0].ask(
            replace(MOMENTS, scaling=Scaling(np.arange(4), np.full(4, 99.0), np.ones(4)))
        )
