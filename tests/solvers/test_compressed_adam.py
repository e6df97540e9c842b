"""Adam on compressed gradients: with error feedback to the optimum, and never silently not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import InputError
from fedcox.federation.compression import (
    AbstractCodec,
    CompressionName,
    EightBit,
    Float32,
    Sign,
    TopK,
)
from fedcox.federation.queries.compressed_gradient import CompressedGradientAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.solvers.adam import Adam
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.cox import fit_cox
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from tests.problems import simulated, split

PATIENTS = 400
#: Compression, and how near to the optimum it comes, in the standard error of a coefficient.
REACHED: dict[CompressionName, float] = {
    "float32": 1e-4,
    "8-bit": 1e-3,
    "sign": 0.03,
    "top-k": 0.02,
    "random-k": 0.01,
}


def centers(count: int = 4) -> InProcess:
    """Unequal ones, whose own optima are far apart."""
    cohort = simulated(PATIENTS, 4, seed=7)
    order = np.argsort(cohort.covariates[:, 0], kind="stable")
    center = np.empty(PATIENTS, dtype=np.int64)
    center[order] = np.arange(PATIENTS) * count // PATIENTS
    return InProcess.from_cohorts(split(cohort, center, count))


def plan(solver: AbstractSolver, link: str = "cloglog") -> Plan:
    return Plan(tuple("abcd"), LINKS[link], "include", 20.0, 160.0, 0.0, solver)


@cache
def fitted(solver: AbstractSolver, count: int = 4, link: str = "cloglog") -> Estimate:
    return estimate(plan(solver, link), centers(count))


def distance(found: Estimate) -> float:
    """The coefficient farthest from the optimum, in standard errors."""
    best = fitted(Newton(), link=found.plan.link.name).inference
    off = np.abs(found.inference.coefficients - best.coefficients) / best.standard_errors
    return float(off.max())


def compressed(name: CompressionName, *, feedback: bool = True, steps: int = 400) -> Adam:
    keep = 0.2 if name in ("top-k", "random-k") else None
    return Adam(0.03, steps, compression=name, keep=keep, error_feedback=feedback)


@pytest.mark.parametrize("link", ["log", "cloglog"])
@pytest.mark.parametrize("name", REACHED)
def test_with_feedback_it_ends_at_the_optimum(name: CompressionName, link: str) -> None:
    assert distance(fitted(compressed(name), link=link)) < REACHED[name]


@pytest.mark.parametrize("name", ["8-bit", "sign", "top-k"])
def test_without_feedback_it_ends_elsewhere(name: CompressionName) -> None:
    without = fitted(compressed(name, feedback=False))
    assert distance(without) > 5 * distance(fitted(compressed(name)))
    assert not without.solution.converged


def test_an_end_that_is_not_the_optimum_is_not_called_one() -> None:
    early = fitted(compressed("sign", steps=50))
    assert distance(early) > 4 * distance(fitted(compressed("sign")))
    assert not early.solution.converged


def test_the_last_round_is_not_compressed() -> None:
    found = fitted(compressed("sign", steps=30))
    names = [row.query for row in found.ledger]
    assert names.count("compressed gradient") == 30 * 4
    assert names[-4:] == ["information"] * 4
    last = found.ledger[-1]
    assert last.bytes_up == 8 * last.numbers_up
    assert last.numbers_up == 1 + 2 * 8 + 2 * 4 + 8 * 4 + 6


def test_a_search_begins_with_nothing_unsent() -> None:
    """Two searches over one federation and one solver give the same numbers."""
    chosen, federation = plan(compressed("top-k", steps=40)), centers()
    first, second = estimate(chosen, federation), estimate(chosen, federation)
    np.testing.assert_array_equal(first.solution.beta, second.solution.beta)


def test_random_entries_take_the_pooled_path() -> None:
    """All centers send the same entries, so the split matters no more than rounding does.

    Rounding matters a little: where a gradient is nothing else, Adam divides it by itself.
    """
    alone, many = (fitted(compressed("random-k", steps=60), count) for count in (1, 20))
    np.testing.assert_allclose(alone.solution.beta, many.solution.beta, atol=1e-4)


def test_batches_may_be_compressed_too() -> None:
    whole = fitted(Adam(0.02, 200, batch_size=100, seed=2))
    fewer = fitted(Adam(0.02, 200, batch_size=100, seed=2, compression="8-bit"))
    best = fitted(Newton()).inference.standard_errors
    gap = np.abs(whole.inference.coefficients - fewer.inference.coefficients) / best
    assert gap.max() < 0.05


def test_random_entries_depend_on_the_seed() -> None:
    ends = [
        fitted(Adam(0.03, 20, seed=seed, compression="random-k")).solution.beta
        for seed in (0, 1)
    ]
    assert (ends[0] != ends[1]).any()


def test_coxs_own_loss_is_not_compressed() -> None:
    with pytest.raises(InputError, match="discrete-time model alone"):
        fit_cox(centers(), ties="breslow", solver=Adam(steps=5, compression="sign"))


# Under masks


@pytest.mark.parametrize("name", ["float32", "8-bit", "sign", "top-k"])
def test_where_only_sums_are_seen_it_is_refused(name: CompressionName) -> None:
    with pytest.raises(InputError, match="cannot be summed under masks"):
        estimate(plan(compressed(name, steps=5)), Masked.around(centers()))


@pytest.mark.parametrize("codec", [Float32(), EightBit(), Sign(), TopK(0.2)])
def test_the_engine_does_not_mask_what_does_not_add(codec: AbstractCodec) -> None:
    """Even where nobody asked the solver."""
    setting = fitted(Newton()).agreement.setting
    question = DerivativesAt(setting, np.full(8, -2.0), np.zeros(4), Detail.GRADIENT)
    with pytest.raises(InputError):
        Masked.around(centers()).ask(CompressedGradientAt(question, 1, codec))


def test_random_entries_are_summed_under_masks() -> None:
    solver = compressed("random-k", steps=60)
    plain, masked = (estimate(plan(solver), f) for f in (centers(), Masked.around(centers())))
    np.testing.assert_allclose(masked.solution.beta, plain.solution.beta, atol=1e-4)
    rows = [row for row in masked.ledger if row.query == "compressed gradient"]
    assert len(rows) == 60 * 4
    assert {row.protection for row in rows} == {"masks"}
    assert {row.numbers_up for row in rows} == {1 + 2}
