"""The same bits on any number of threads, and nothing left behind."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import fedcox
import fedcox.survival.cell_blocks as cell_blocks
import fedcox.survival.piece_sums as piece_sums
import fedcox.survival.preparation as preparation
import fedcox.survival.threads as threads
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS
from fedcox.survival.preparation import prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import at_most, in_order, parts
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid
from tests.problems import simulated

PATIENTS, COLUMNS = 9000, 4
GRIDS: dict[str, AnyGrid] = {
    "log": Pieces(np.array([0.0, 5.0, 20.0, 60.0, 200.0])),
    "cloglog": TimeGrid.regular(10.0, 200.0),
    "logit": TimeGrid.regular(10.0, 200.0),
}


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work is shared out, in many small pieces."""
    monkeypatch.setattr(threads, "_WORTH", 512)
    monkeypatch.setattr(piece_sums, "_PATIENTS", 256)
    monkeypatch.setattr(cell_blocks, "_PATIENTS", 64)
    monkeypatch.setattr(cell_blocks, "_COVARIATES", 512)


@pytest.fixture
def cohort() -> Cohort:
    return simulated(PATIENTS, COLUMNS, seed=3)


def numbers(found: Derivatives) -> Iterator[object]:
    yield found.loss
    yield from (found.alpha.tobytes(), found.beta.tobytes())
    yield from (None if part is None else part.tobytes() for part in found.curvature or ())


@pytest.mark.usefixtures("many_parts")
@pytest.mark.parametrize("few", [10**9, -1], ids=["cells", "series"])
@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("name", GRIDS)
def test_derivatives_have_the_same_bits_on_any_number_of_threads(
    name: str, detail: Detail, few: int, cohort: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(GRIDS, few))
    grid, link = GRIDS[name], LINKS[name]
    active = np.ones(grid.intervals, dtype=np.bool_)
    alpha = np.random.default_rng(1).normal(-3.0, 0.3, grid.intervals)
    seen = set()
    for beta in (np.zeros(COLUMNS), np.linspace(-0.2, 0.3, COLUMNS)):
        for count in (1, 2, 5):
            with at_most(count):
                scaling = Scaling.none(COLUMNS)
                patients = prepare(cohort, grid, "include", active, scaling, link)
                found = patients.derivatives(link, alpha, beta, detail)
            seen.add((beta.any(), *numbers(found)))
    assert len(seen) == 2


@pytest.mark.usefixtures("many_parts")
def test_what_is_agreed_beforehand_has_the_same_bits_too(cohort: Cohort) -> None:
    seen = set()
    for count in (1, 2, 5):
        with at_most(count):
            again = Cohort(cohort.covariates, cohort.time, cohort.event)
            scatter = CovariateScatter(again.totals / PATIENTS).answer(again)
            placed = GRIDS["log"].at_risk(again.time, again.event, "include")
            arrays = again.totals, scatter, placed.passed, placed.event, placed.part
            seen.add(tuple(array.tobytes() for array in arrays))
    assert len(seen) == 1
    total = cohort.covariates.T @ cohort.covariates
    mean = cohort.covariates.mean(axis=0)
    np.testing.assert_allclose(scatter, total - PATIENTS * np.outer(mean, mean), rtol=1e-10)


@pytest.mark.usefixtures("many_parts")
def test_an_estimator_gives_the_same_bits_on_any_number_of_threads(cohort: Cohort) -> None:
    fits = [
        fedcox.ProportionalHazards(pieces=6, threads=count).fit(
            cohort.covariates, (cohort.time, cohort.event)
        )
        for count in (1, 2, 5)
    ]
    assert len({fit.coef_.tobytes() + fit.covariance_.tobytes() for fit in fits}) == 1


@pytest.mark.parametrize("given", [0, -1, 1.5, "two"])
def test_threads_are_a_whole_number_above_zero(given: object) -> None:
    model = fedcox.ProportionalHazards(threads=given)  # type: ignore[arg-type]
    with pytest.raises(fedcox.errors.StudyError) as failure:
        model.fit([[0.0], [1.0]], ([1.0, 2.0], [1, 1]))
    assert f"threads is {given!r}; it must be a whole number above zero" in str(failure.value)


def test_results_come_in_order_whoever_is_quicker() -> None:
    def slow_first(part: slice) -> int:
        time.sleep(0.02 / (1 + part.start))
        return int(part.start)

    with at_most(4):
        assert in_order(slow_first, [slice(k, k + 1) for k in range(20)]) == list(range(20))


def test_every_thread_takes_its_share() -> None:
    everyone = threading.Barrier(3)  # broken, and an error, if fewer than three come
    with at_most(3):
        in_order(lambda part: everyone.wait(timeout=10), [slice(0, 1)] * 3)


def test_a_failure_on_another_thread_is_one_here() -> None:
    def fails(part: slice) -> None:
        if part.start == 7:
            raise ZeroDivisionError

    with at_most(3), pytest.raises(ZeroDivisionError):
        in_order(fails, [slice(k, k + 1) for k in range(20)])
    with at_most(3):  # and the threads are there for the next
        assert in_order(lambda part: part.start, [slice(1, 2)] * 4) == [1] * 4


def test_overflow_is_treated_on_every_thread_as_it_is_here() -> None:
    everyone = threading.Barrier(3)

    def overflow(part: slice) -> bool:
        everyone.wait(timeout=10)
        return bool(np.isinf(np.exp(np.array([1e3]))).all())

    with at_most(3), np.errstate(over="raise"), pytest.raises(FloatingPointError):
        in_order(overflow, [slice(0, 1)] * 3)
    with at_most(3), np.errstate(over="ignore"):
        assert in_order(overflow, [slice(0, 1)] * 3) == [True] * 3


def test_work_inside_of_work_starts_no_more_threads() -> None:
    def outer(part: slice) -> set[int]:
        return set(in_order(lambda inner: threading.get_ident(), [slice(0, 1)] * 5))

    with at_most(3):
        assert all(len(inside) == 1 for inside in in_order(outer, [slice(0, 1)] * 6))


def test_few_patients_are_one_part_and_many_at_most_so_many() -> None:
    assert parts(0, 50) == [slice(0, 0)]
    assert parts(2000, 50) == [slice(0, 2000)]
    assert len(parts(10**9, 50)) == threads._MOST_PARTS
    cut = parts(1_000_003, 50)
    assert [part.start for part in cut[1:]] == [part.stop for part in cut[:-1]]
    assert (cut[0].start, cut[-1].stop) == (0, 1_000_003)
    assert len(parts(1_000_000, 50, least=400_000)) == 2


def test_small_work_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_pool", None)  # an error if asked for
    with at_most(8):
        simulated(2000, 20)


def test_threads_come_from_the_environment_or_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for said, count in (("3", 3), ("2,4", 2), (" 5 ", 5)):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert threads.threads() == count
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for said in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert threads.threads() == cores
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads.threads() == cores
    with at_most(7):
        assert threads.threads() == 7
    assert threads.threads() == cores


def test_blas_is_on_one_thread_inside_and_as_before_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = [6]
    monkeypatch.setattr(
        threads, "_blas", lambda: (lambda: state[0], lambda count: state.__setitem__(0, count))
    )
    inside = in_order(lambda part: in_order(lambda inner: state[0], [part]), [slice(0, 1)])
    assert inside == [[1]]
    assert state == [6]


def test_without_a_way_to_hold_blas_back_there_is_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_blas", lambda: None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with at_most(4):
        assert len(set(in_order(lambda part: threading.get_ident(), [slice(0, 1)] * 9))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_threads_are_there_again_after_a_fork() -> None:
    def share_out() -> bool:
        with at_most(3):
            return in_order(lambda part: part.start, [slice(2, 3)] * 9) == [2] * 9

    assert share_out()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, on forks
        child = os.fork()
    if not child:
        os._exit(0 if share_out() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
