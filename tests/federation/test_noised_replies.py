"""Noised replies over restarts: paid for once, counted before they leave, given again as is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcox.privacy.budget as budget_module
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import BudgetError, RefusedError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.bounded_sums import NoisedMoments
from fedcox.files.writing import append_to_disk
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.budget import Budget
from fedcox.privacy.noise import GaussianRelease
from fedcox.privacy.study_memory import StudyMemory
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.scaling import Scaling
from tests.privacy.test_study_memory import PowerCut

DELTA = 1e-5
RELEASE = GaussianRelease(20.0, 1.0, releases=4)
ABC = frozenset({"A", "B", "C"})


def cohort(patients: int = 40) -> Cohort:
    rng = np.random.default_rng(0)
    return Cohort(
        rng.normal(size=(patients, 2)), np.ones(patients), np.ones(patients, np.bool_)
    )


COHORT = cohort()


def question(number: int, release: GaussianRelease = RELEASE) -> NoisedMoments:
    scaling = Scaling(np.arange(2), np.full(2, float(number)), np.ones(2))
    return NoisedMoments(scaling, np.ones(2, dtype=np.bool_), release)


def budget(folder: Path, epsilon: float = 10.0) -> Budget:
    return Budget(folder / "budget.jsonl", epsilon=epsilon, delta=1e-3)


@contextmanager
def restarted(folder: Path, epsilon: float = 10.0) -> Iterator[NoisedReplies]:
    """The replies of a new process."""
    with StudyMemory(folder / "study") as memory:
        yield NoisedReplies("study", DELTA, budget(folder, epsilon), memory=memory)


def reply(
    noise: NoisedReplies,
    query: NoisedMoments,
    *,
    masked: bool = False,
    among: frozenset[str] = frozenset(),
) -> FloatArray:
    return noise.vector(query, COHORT, masked=masked, among=among)


def used(folder: Path) -> int:
    with StudyMemory(folder / "study") as memory:
        return sum(right.used for right in memory.now.noised.rights.values())


def test_a_restarted_center_goes_on_with_what_it_paid_for(tmp_path: Path) -> None:
    for number in range(RELEASE.releases):
        with restarted(tmp_path) as noise:
            reply(noise, question(number))
    assert budget(tmp_path).spent.studies == 1
    with restarted(tmp_path) as noise, pytest.raises(BudgetError, match=r"all the noised sums"):
        reply(noise, question(99))
    assert used(tmp_path) == RELEASE.releases


def test_a_budget_that_is_all_spent_by_this_study_lets_it_go_on(tmp_path: Path) -> None:
    with restarted(tmp_path) as noise:
        cost = noise.epsilon(RELEASE)
    for number in range(RELEASE.releases):
        with restarted(tmp_path, epsilon=cost) as noise:
            reply(noise, question(number))
    other = replace(RELEASE, releases=1)
    with restarted(tmp_path, epsilon=cost) as noise, pytest.raises(BudgetError, match=r"cover"):
        reply(noise, question(0, other))


def test_the_last_question_again_gets_the_same_reply_after_a_restart(tmp_path: Path) -> None:
    with restarted(tmp_path) as noise:
        reply(noise, question(0))
        first = reply(noise, question(1))
    for _ in range(5):
        with restarted(tmp_path) as noise:
            np.testing.assert_array_equal(reply(noise, question(1)), first)
    assert used(tmp_path) == 2


def test_the_same_reply_is_never_given_to_other_eyes(tmp_path: Path) -> None:
    """Masked and not, and in sums over other centers: fresh noise, and counted."""
    with restarted(tmp_path) as noise:
        given = [
            reply(noise, question(0)),
            reply(noise, question(0), masked=True, among=ABC),
            reply(noise, question(0), masked=True, among=ABC - {"C"}),
            reply(noise, question(0)),
        ]
        with pytest.raises(BudgetError, match=r"all the noised sums"):
            reply(noise, question(0), masked=True, among=ABC)
    assert len({vector.tobytes() for vector in given}) == 4


@pytest.mark.parametrize("claimed", [4, 1000])
def test_a_coordinator_cannot_divide_the_noise_away(claimed: int) -> None:
    centers = [Center(name, COHORT, noise=NoisedReplies("s", DELTA)) for name in sorted(ABC)]
    masked = Masked.around(InProcess(centers))
    masked.ask(question(0, replace(RELEASE, fewest_centers=3)))
    forged = question(0, replace(RELEASE, fewest_centers=claimed))
    with pytest.raises(RefusedError, match=f"divided by {claimed}"):
        masked.ask(forged)


def test_a_center_without_a_way_to_add_noise_refuses() -> None:
    with pytest.raises(RefusedError, match=r"would need noise"):
        Center("Lyon", COHORT).answer(question(0))


def test_kinds_of_replies_are_paid_and_counted_apart(tmp_path: Path) -> None:
    other = replace(RELEASE, noise_multiplier=30.0, releases=1)
    with restarted(tmp_path) as noise:
        reply(noise, question(0))
        reply(noise, question(0, other))
    with restarted(tmp_path) as noise:
        reply(noise, question(1))
        with pytest.raises(BudgetError, match=r"paid for 1\b"):
            reply(noise, question(1, other))
    assert budget(tmp_path).spent.studies == 2


def test_what_the_budget_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    with restarted(tmp_path, epsilon=1e-3) as noise:
        for releases in range(1, 5):
            with pytest.raises(BudgetError, match=r"does not cover"):
                reply(noise, question(0, replace(RELEASE, releases=releases)))
    with StudyMemory(tmp_path / "study") as memory:
        assert not memory.now.noised.rights


def test_a_memory_deleted_on_purpose_is_paid_for_again(tmp_path: Path) -> None:
    for spent in (1, 2):
        with restarted(tmp_path) as noise:
            reply(noise, question(0))
        (tmp_path / "study" / "study.json").unlink()
        (tmp_path / "study").rmdir()
        assert budget(tmp_path).spent.studies == spent


def cut_anywhere(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Stop before the given call that touches the disk, of the memory or of the budget."""
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise PowerCut

    def stopping(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def once(*args: Any, **more: Any) -> Any:
            count()
            return real(*args, **more)

        monkeypatch.setattr(owner, name, once)

    for name in ("open", "fdopen", "fsync", "rename"):
        stopping(os, name)
    for name in ("replace", "open"):
        stopping(Path, name)


def test_power_lost_at_any_moment_pays_once_and_counts_what_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    for call in range(1, 200):
        folder = tmp_path / str(call)
        StudyMemory(folder / "study").close()
        left = []
        with monkeypatch.context() as patch:
            cut_anywhere(patch, call)
            try:
                with restarted(folder) as noise:
                    for number in range(2):
                        left.append(reply(noise, question(number)).copy())
            except PowerCut:
                stops += 1
            else:
                break
        assert len(left) <= used(folder) <= len(left) + 1
        # The study goes on: what left last is given again, and all that was paid for is there.
        with restarted(folder) as noise:
            if left and used_by(noise) == len(left):
                np.testing.assert_array_equal(reply(noise, question(len(left) - 1)), left[-1])
            before = used_by(noise)
            for number in range(before, RELEASE.releases):
                reply(noise, question(10 + number))
            with pytest.raises(BudgetError, match=r"all the noised sums"):
                reply(noise, question(99))
        assert budget(folder).spent.studies == 1
    assert stops >= 25


def used_by(noise: NoisedReplies) -> int:
    return sum(right.used for right in noise._noised.rights.values())


def test_an_error_is_counted_as_a_reply(tmp_path: Path) -> None:
    """Whether one comes may depend on the patients, and is seen by whoever asks."""

    class Failing(NoisedMoments):
        def summed(self, cohort: Cohort, patients: IntArray) -> FloatArray:
            raise FloatingPointError("these patients and no others")

    scaling = Scaling(np.arange(2), np.zeros(2), np.ones(2))
    failing = Failing(scaling, np.ones(2, dtype=np.bool_), RELEASE)
    with restarted(tmp_path) as noise, pytest.raises(FloatingPointError):
        reply(noise, failing)
    assert used(tmp_path) == 1


def test_a_study_over_everybody_is_asked_about_no_sample() -> None:
    agreed = NoisedReplies("study", DELTA, most=100.0, sums=4)
    with pytest.raises(BudgetError, match=r"its noise covers"):
        reply(agreed, question(0, replace(RELEASE, sampling_rate=0.5)))


def test_half_a_line_in_the_budget_is_no_payment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power goes while the payment is being written, at every length of it."""
    real = append_to_disk

    def half(path: Path, content: bytes) -> None:
        real(path, content[:length])
        raise PowerCut

    for length in range(0, 260, 20):
        folder = tmp_path / str(length)
        with monkeypatch.context() as patch:
            patch.setattr(budget_module, "append_to_disk", half)
            with restarted(folder) as noise, pytest.raises(PowerCut):
                reply(noise, question(0))
        with restarted(folder) as noise:
            reply(noise, question(0))
        assert budget(folder).spent.studies == 1


def _answer(folder: Path, begin: int, leaving: Any) -> None:
    """Answer as fast as the disk allows; a byte leaves with every reply."""
    release = GaussianRelease(3000.0, 1.0, releases=1_000_000)
    with restarted(folder) as noise:
        for number in range(begin, begin + 100_000):
            reply(noise, question(number, release), masked=True, among=ABC)
            leaving.send_bytes(b".")


def test_killed_while_it_answers_it_has_counted_all_that_left(tmp_path: Path) -> None:
    """kill -9, again and again, of a process that answers in a loop."""
    context, left = multiprocessing.get_context("fork"), 0
    for turn in range(12):
        arriving, leaving = context.Pipe(duplex=False)
        process = context.Process(
            target=_answer, args=(tmp_path, 100_000 * turn, leaving), daemon=True
        )
        process.start()
        leaving.close()
        for _ in range(1 + turn % 3):
            arriving.recv_bytes()
            left += 1
        time.sleep(0.0013 * turn)  # so that it is killed at one moment and another
        process.kill()
        with suppress(EOFError):
            while arriving.recv_bytes():
                left += 1
        process.join()
        assert process.exitcode == -signal.SIGKILL
        # More than left by at most the one that was under way, each time it was killed.
        assert left <= used(tmp_path) <= left + turn + 1
    assert budget(tmp_path).spent.studies == 1


def test_a_reply_that_cannot_be_counted_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restarted(tmp_path) as noise:
        first = reply(noise, question(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", lambda *a, **m: (_ for _ in ()).throw(OSError(5, "no")))
            with pytest.raises(RefusedError, match=r"nothing is answered"):
                reply(noise, question(1))
        np.testing.assert_array_equal(reply(noise, question(0)), first)
        for number in range(1, RELEASE.releases):
            reply(noise, question(number))
    assert used(tmp_path) == RELEASE.releases


#: Three kinds of one study: half of it, and twice a quarter, one of them in two sums.
WHOLE = 5.0
KINDS = (
    GaussianRelease(WHOLE * 2**0.5, 1.0, whole=WHOLE),
    GaussianRelease(WHOLE * 2, 2.0, whole=WHOLE),
    GaussianRelease(WHOLE * 8**0.5, 1.0, releases=2, whole=WHOLE),
)


def all_of(noise: NoisedReplies, begin: int = 0) -> None:
    """Every sum of the study, from one of its four on."""
    for number, release in list(enumerate([*KINDS, KINDS[2]]))[begin:]:
        reply(noise, question(number, release))


def test_kinds_of_one_study_are_paid_for_once_and_together(tmp_path: Path) -> None:
    with restarted(tmp_path) as noise:
        all_of(noise)
        cost = noise.epsilon(GaussianRelease(WHOLE, 1.0))
    spent = budget(tmp_path).spent
    assert (spent.studies, spent.epsilon, spent.delta) == (1, cost, DELTA)
    assert used(tmp_path) == 4


def test_a_study_that_ends_with_its_first_sum_has_paid_for_that_alone(tmp_path: Path) -> None:
    """So a study is not paid for whole where its first sum tells that it is of no use."""
    with restarted(tmp_path) as noise:
        reply(noise, question(0, KINDS[0]))
    alone = epsilon_of(replace(KINDS[0], whole=None), DELTA)
    assert budget(tmp_path).spent.epsilon == alone
    with restarted(tmp_path) as noise:
        reply(noise, question(0, KINDS[0]))
        assert budget(tmp_path).spent.epsilon == alone
        reply(noise, question(1, KINDS[1]))
        whole = noise.epsilon(KINDS[0])
    spent = budget(tmp_path).spent
    assert alone < 0.8 * whole
    assert (spent.studies, spent.delta) == (1, DELTA)
    assert spent.epsilon == pytest.approx(whole)


@pytest.mark.parametrize("noise", [1e5, 1e8])
def test_next_to_nothing_is_paid_for_all_the_same(tmp_path: Path, noise: float) -> None:
    """At a share so small that delta alone would cover it."""
    release = GaussianRelease(noise, 1.0 / noise, whole=WHOLE)
    with restarted(tmp_path) as replies:
        reply(replies, question(0, release))
        assert budget(tmp_path).spent.epsilon == replies.epsilon(release)


def test_what_is_left_of_a_study_is_refused_where_others_took_the_rest(tmp_path: Path) -> None:
    whole = epsilon_of(GaussianRelease(WHOLE, 1.0), DELTA)
    alone = epsilon_of(replace(KINDS[0], whole=None), DELTA)
    account = budget(tmp_path, whole)
    noise = NoisedReplies("study", DELTA, account)
    reply(noise, question(0, KINDS[0]))
    account.reserve("other", name="", epsilon=whole - alone, delta=DELTA, releases=1)
    with pytest.raises(BudgetError, match="does not cover"):
        reply(noise, question(1, KINDS[1]))
    assert account.spent.epsilon == pytest.approx(whole)


@pytest.mark.parametrize("kept", [True, False])
def test_a_kind_beyond_the_study_is_refused_whatever_the_budget_has(
    tmp_path: Path, *, kept: bool
) -> None:
    """Also one that is not asked for yet: the three others leave no room for it."""
    further = GaussianRelease(WHOLE * 100, 1.0, whole=WHOLE)
    with restarted(tmp_path, epsilon=1000.0) as lasting:
        noise = lasting if kept else NoisedReplies("s", DELTA, budget(tmp_path, 1000.0))
        all_of(noise)
        for number in range(3):
            with pytest.raises(BudgetError, match=r"more noised sums than its noise covers"):
                reply(noise, question(number, further))
        for release in KINDS:
            with pytest.raises(BudgetError, match=r"all the noised sums"):
                reply(noise, question(99, release))
    assert budget(tmp_path, 1000.0).spent.studies == 1


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_restarted_center_goes_on_with_the_kinds_that_are_left(
    tmp_path: Path, stop: int
) -> None:
    """And has paid for them, also where the budget is all spent."""
    with restarted(tmp_path) as noise:
        cost = noise.epsilon(KINDS[0])
        for number, release in list(enumerate([*KINDS, KINDS[2]]))[:stop]:
            reply(noise, question(number, release))
    with restarted(tmp_path, epsilon=cost) as noise:
        all_of(noise, stop)
        with pytest.raises(BudgetError, match=r"more noised sums"):
            reply(noise, question(9, GaussianRelease(WHOLE * 50, 1.0, whole=WHOLE)))
    assert budget(tmp_path).spent.studies == 1
    assert used(tmp_path) == 4


def test_kinds_of_another_whole_are_another_payment(tmp_path: Path) -> None:
    other = GaussianRelease(9.0, 1.0, whole=9.0)
    with restarted(tmp_path) as noise:
        all_of(noise)
        reply(noise, question(9, other))
        due = noise.epsilon(KINDS[0]) + noise.epsilon(other)
    assert budget(tmp_path).spent.studies == 2
    assert budget(tmp_path).spent.epsilon == pytest.approx(due)


def test_kinds_together_cost_no_more_than_was_agreed_on() -> None:
    cost = NoisedReplies("study", DELTA).epsilon(KINDS[0])
    all_of(NoisedReplies("study", DELTA, most=cost))
    for most in (0.99 * cost, 0.1):
        with pytest.raises(BudgetError, match=r"agreed on"):
            all_of(NoisedReplies("study", DELTA, most=most))
    also = NoisedReplies("study", DELTA, most=1.5 * cost)
    all_of(also)
    with pytest.raises(BudgetError, match=r"agreed on"):
        reply(also, question(9, GaussianRelease(WHOLE, 1.0)))


def test_where_sums_were_agreed_on_delta_is_spent_once_and_noise_divided_as_agreed() -> None:
    """By other names for the same noise a coordinator could spend delta once for each."""
    with_less = [replace(KINDS[0], noise_multiplier=1e3, whole=each) for each in (10.0, 20.0)]
    more_parts = replace(KINDS[0], fewest_centers=4)
    for other in (*with_less, more_parts):
        agreed = NoisedReplies("study", DELTA, most=100.0, sums=4, parts=3)
        reply(agreed, question(0, KINDS[0]))
        with pytest.raises(BudgetError, match=r"its noise covers"):
            reply(agreed, question(1, other))
    alone = NoisedReplies("study", DELTA, most=100.0, sums=4, parts=3)
    with pytest.raises(BudgetError, match=r"its noise covers"):
        reply(alone, question(0, more_parts))


def test_two_studies_of_several_kinds_are_agreed_on_apart() -> None:
    """Each kind is no payment of its own, but each study of kinds is one."""
    noise = NoisedReplies("study", DELTA)
    cost = noise.epsilon(KINDS[0])
    other = [replace(kind, noise_multiplier=2 * kind.noise_multiplier) for kind in KINDS]
    second = [replace(kind, whole=2 * WHOLE) for kind in other]
    most = cost + noise.epsilon(second[0])
    agreed = NoisedReplies("study", DELTA, most=most)
    all_of(agreed)
    for number, release in enumerate(second):
        reply(agreed, question(20 + number, release))
    with pytest.raises(BudgetError, match=r"agreed on"):
        reply(agreed, question(30, GaussianRelease(1e3, 1.0)))


def test_kinds_over_other_numbers_of_centers_are_agreed_on_apart() -> None:
    """Their noise is divided in other ways, so that each is another payment."""
    cost = NoisedReplies("study", DELTA).epsilon(KINDS[0])
    noise = NoisedReplies("study", DELTA, most=2.0 * cost)
    for number, fewest in enumerate((None, 3)):
        reply(noise, question(number, replace(KINDS[0], fewest_centers=fewest)))
    with pytest.raises(BudgetError, match=r"agreed on"):
        reply(noise, question(2, replace(KINDS[0], fewest_centers=4)))
