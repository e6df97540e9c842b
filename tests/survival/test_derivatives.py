from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedcox.survival.cell_blocks as cell_blocks
import fedcox.survival.preparation as preparation
import fedcox.survival.risk_prefixes as risk_prefixes
from fedcox.survival import risk_order
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.person_periods import stack
from fedcox.survival.preparation import prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.problems import LINK_NAMES, READINGS, grids, simulated

COHORT = simulated(300, 3)
GRIDS = tuple(grids(COHORT))
#: How the kernel is made to take each of its ways: cell by cell in blocks, or by prefix sums.
WAYS = {"cells": 10**9, "series": -1}


@dataclass(frozen=True)
class Oracle:
    """Sums over the stack, cell by cell."""

    loss: float
    gradient: FloatArray
    hessian: FloatArray
    information: FloatArray


def oracle(
    cohort: Cohort,
    grid: TimeGrid,
    reading: CensoredInterval,
    link: AbstractLink,
    alpha: FloatArray,
    beta: FloatArray,
) -> Oracle:
    rows = stack(cohort, grid, reading)
    design = rows.design(cohort, grid.intervals)
    v = np.exp(design @ np.concatenate([alpha, beta]))
    at_risk, event = link.at_risk(v), link.event(v)
    weight = rows.weight
    slope = weight * np.where(rows.event, event.slope, at_risk.slope)
    curvature = weight * np.where(rows.event, event.curvature, at_risk.curvature)
    information = weight * link.information(v)
    return Oracle(
        float((weight * np.where(rows.event, event.cost, at_risk.cost)).sum()),
        design.T @ slope,
        design.T @ (curvature[:, None] * design),
        design.T @ (information[:, None] * design),
    )


def full(curvature: Curvature | None) -> FloatArray:
    assert curvature is not None
    assert curvature.cross is not None
    return np.block(
        [[np.diag(curvature.alpha), curvature.cross], [curvature.cross.T, curvature.beta]]
    )


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    few = dict.fromkeys(LINK_NAMES, WAYS[request.param])
    monkeypatch.setattr(preparation, "FEW_INTERVALS", few)
    monkeypatch.setattr(cell_blocks, "_PATIENTS", 37)  # several blocks, cut anywhere
    monkeypatch.setattr(cell_blocks, "_COVARIATES", 0)  # and slabs, the smallest there are
    return str(request.param)


def ask(
    grid: TimeGrid,
    reading: CensoredInterval,
    link: AbstractLink,
    alpha: FloatArray,
    beta: FloatArray,
    detail: Detail,
    cohort: Cohort = COHORT,
) -> Derivatives:
    active = np.ones(grid.intervals, dtype=np.bool_)
    patients = prepare(cohort, grid, reading, active, Scaling.none(cohort.columns), link)
    return patients.derivatives(link, alpha, beta, detail)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", GRIDS)
def test_derivatives_equal_the_sum_over_the_stack(
    way: str, name: str, reading: CensoredInterval, grid_name: str
) -> None:
    grid, link = grids(COHORT)[grid_name], LINKS[name]
    rng = np.random.default_rng(7)
    alpha = rng.normal(-3.0, 1.0, grid.intervals)
    beta = rng.normal(0.0, 0.5, 3)
    expected = oracle(COHORT, grid, reading, link, alpha, beta)
    found = ask(grid, reading, link, alpha, beta, Detail.HESSIAN)
    expected_information = ask(grid, reading, link, alpha, beta, Detail.INFORMATION)
    assert found.loss == pytest.approx(expected.loss, rel=1e-13)
    gradient = np.concatenate([found.alpha, found.beta])
    np.testing.assert_allclose(gradient, expected.gradient, rtol=1e-11, atol=1e-11)
    # Where it is a series, the T×P block that steers the search is kept to nine digits only.
    digits = 1e-8 if way == "series" else 1e-11
    np.testing.assert_allclose(
        full(found.curvature), expected.hessian, rtol=digits, atol=digits
    )
    np.testing.assert_allclose(
        full(expected_information.curvature), expected.information, rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("apart", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
def test_intervals_with_similar_hazards_sum_as_the_stack_does(
    reading: CensoredInterval, name: str, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, 10**9))
    monkeypatch.setattr(cell_blocks, "_PATIENTS", 37)
    monkeypatch.setattr(cell_blocks, "_COVARIATES", 0)  # and slabs, the smallest there are
    link, grid = LINKS[name], TimeGrid.regular(float(COHORT.time.max()) / 80, COHORT.time.max())
    rng = np.random.default_rng(11)
    alpha = -3.0 + apart * rng.uniform(-1.0, 1.0, grid.intervals)
    beta = rng.normal(0.0, 0.5, 3)
    expected = oracle(COHORT, grid, reading, link, alpha, beta)
    for detail, curvature in (
        (Detail.HESSIAN, expected.hessian),
        (Detail.INFORMATION, expected.information),
    ):
        found = ask(grid, reading, link, alpha, beta, detail)
        assert found.loss == pytest.approx(expected.loss, rel=1e-12)
        gradient = np.concatenate([found.alpha, found.beta])
        np.testing.assert_allclose(gradient, expected.gradient, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(full(found.curvature), curvature, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("many", [0, 10**9], ids=["grouped", "one by one"])
@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", GRIDS)
def test_derivatives_without_effects_equal_the_sum_over_the_stack(
    name: str,
    reading: CensoredInterval,
    grid_name: str,
    many: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, 10**9))
    monkeypatch.setattr(cell_blocks, "_PATIENTS", 37)
    monkeypatch.setattr(cell_blocks, "_COVARIATES", 0)  # and slabs, the smallest there are
    monkeypatch.setattr(risk_order, "_MANY", many)
    grid, link = grids(COHORT)[grid_name], LINKS[name]
    alpha, beta = np.random.default_rng(8).normal(-3.0, 1.0, grid.intervals), np.zeros(3)
    expected = oracle(COHORT, grid, reading, link, alpha, beta)
    found = ask(grid, reading, link, alpha, beta, Detail.HESSIAN)
    assert found.loss == pytest.approx(expected.loss, rel=1e-13)
    gradient = np.concatenate([found.alpha, found.beta])
    np.testing.assert_allclose(gradient, expected.gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(full(found.curvature), expected.hessian, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_gradient_and_hessian_agree_with_finite_differences(way: str, name: str) -> None:
    grid, link = grids(COHORT)["intervals"], LINKS[name]
    point = np.concatenate([np.full(grid.intervals, -2.0), [0.3, -0.2, 0.1]])
    step = 1e-5

    def at(theta: FloatArray, detail: Detail = Detail.GRADIENT) -> Derivatives:
        alpha, beta = theta[: grid.intervals], theta[grid.intervals :]
        return ask(grid, "include", link, alpha, beta, detail)

    found = at(point, Detail.HESSIAN)
    gradient = np.concatenate([found.alpha, found.beta])
    hessian = full(found.curvature)
    for j in range(point.size):
        shift = step * (np.arange(point.size) == j)
        up, down = at(point + shift), at(point - shift)
        assert (up.loss - down.loss) / (2 * step) == pytest.approx(gradient[j], abs=1e-6)
        column = np.concatenate([up.alpha - down.alpha, up.beta - down.beta]) / (2 * step)
        np.testing.assert_allclose(column, hessian[j], atol=1e-6)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_diagonal_and_block_are_parts_of_the_hessian(way: str, name: str) -> None:
    grid, link = grids(COHORT)["event times"], LINKS[name]
    alpha, beta = np.full(grid.intervals, -4.0), np.array([0.2, 0.1, -0.3])
    hessian = ask(grid, "half", link, alpha, beta, Detail.HESSIAN).curvature
    block = ask(grid, "half", link, alpha, beta, Detail.BLOCK).curvature
    diagonal = ask(grid, "half", link, alpha, beta, Detail.DIAGONAL).curvature
    assert hessian is not None
    assert block is not None
    assert diagonal is not None
    assert block.cross is None
    assert diagonal.cross is None
    np.testing.assert_allclose(block.beta, hessian.beta, rtol=1e-12)
    np.testing.assert_allclose(diagonal.beta, np.diag(hessian.beta), rtol=1e-12)
    np.testing.assert_allclose(diagonal.alpha, hessian.alpha, rtol=1e-12)


def test_an_extreme_patient_does_not_spoil_the_series(way: str) -> None:
    x = COHORT.covariates.copy()
    x[17] = 25.0  # exp(β·x) far outside the others
    cohort = Cohort(x, COHORT.time, COHORT.event)
    grid, link = grids(cohort)["event times"], LINKS["logit"]
    alpha, beta = np.full(grid.intervals, -5.0), np.array([0.2, 0.1, 0.05])
    expected = oracle(cohort, grid, "include", link, alpha, beta)
    found = ask(grid, "include", link, alpha, beta, Detail.HESSIAN, cohort)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    np.testing.assert_allclose(full(found.curvature), expected.hessian, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_extreme_patients_are_summed_over_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, -1))
    monkeypatch.setattr(risk_prefixes, "_EXTREME", 3)
    x = COHORT.covariates.copy()
    x[[3, 40, 77]] = 12.0
    cohort = Cohort(x, COHORT.time, COHORT.event)
    grid, link = grids(cohort)["event times"], LINKS[name]
    alpha, beta = np.full(grid.intervals, -7.0), np.array([0.3, 0.2, 0.1])
    expected = oracle(cohort, grid, "half", link, alpha, beta)
    found = ask(grid, "half", link, alpha, beta, Detail.INFORMATION, cohort)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    np.testing.assert_allclose(
        full(found.curvature), expected.information, rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("name", LINK_NAMES)
def test_an_event_that_was_certain_costs_nothing(way: str, name: str) -> None:
    # The first event belongs to a patient with exp(β·x) beyond any number: v is cancelled
    # nowhere, so the others keep all their digits.
    first = int(np.argmin(np.where(COHORT.event, COHORT.time, np.inf)))
    x = COHORT.covariates.copy()
    x[first] = [0.0, 0.0, 1e4]
    cohort = Cohort(x, COHORT.time, COHORT.event)
    rest = np.arange(COHORT.patients) != first
    others = Cohort(x[rest], COHORT.time[rest], COHORT.event[rest])
    grid, link = grids(COHORT)["intervals"], LINKS[name]
    alpha, beta = np.full(grid.intervals, -2.0), np.array([0.3, -0.2, 0.1])
    for detail in Detail:
        found = ask(grid, "include", link, alpha, beta, detail, cohort)
        expected = ask(grid, "include", link, alpha, beta, detail, others)
        assert found.loss == pytest.approx(expected.loss, rel=1e-13)
        np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-12, atol=1e-12)


def test_an_empty_center_contributes_zeros(way: str) -> None:
    empty = Cohort(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=bool))
    grid = grids(COHORT)["intervals"]
    alpha = np.full(grid.intervals, -2.0)
    for link in LINKS.values():
        for detail in Detail:
            found = ask(grid, "half", link, alpha, np.zeros(3), detail, empty)
            assert found.loss == 0.0
            assert not found.alpha.any()
            assert not found.beta.any()


def test_overflow_gives_an_infinite_loss_and_no_exception(way: str) -> None:
    grid = grids(COHORT)["intervals"]
    for link in LINKS.values():
        found = ask(
            grid, "include", link, np.zeros(grid.intervals), np.full(3, 900.0), Detail.HESSIAN
        )
        assert not np.isfinite(found.loss)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
def test_absurd_rates_where_nobody_is_at_risk_change_nothing(
    way: str, name: str, reading: CensoredInterval
) -> None:
    rng = np.random.default_rng(4)
    cohort = Cohort(rng.normal(size=(80, 2)), rng.uniform(0.1, 2.9, 80), np.arange(80) % 2 == 0)
    grid, link = TimeGrid(np.arange(1.0, 5.0), 1.0), LINKS[name]
    usual = np.array([-2.0, -2.0, -2.0, -2.0])
    absurd = np.array([-2.0, -2.0, -2.0, 710.0])  # nobody reaches the last interval
    for beta in (np.zeros(2), np.array([0.3, -0.2])):
        for detail in Detail:
            found = ask(grid, reading, link, absurd, beta, detail, cohort)
            expected = ask(grid, reading, link, usual, beta, detail, cohort)
            assert found.loss == expected.loss
            assert found.alpha[3] == 0.0
            np.testing.assert_array_equal(found.alpha, expected.alpha)
            np.testing.assert_array_equal(found.beta, expected.beta)
            for part, other in zip(
                found.curvature or (), expected.curvature or (), strict=True
            ):
                np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("alpha", [709.5, 710.0, 800.0])
@pytest.mark.parametrize("event", [False, True])
def test_rates_beyond_any_number_give_an_infinite_loss(
    way: str, name: str, reading: CensoredInterval, alpha: float, event: bool
) -> None:
    # Of three intervals; and risks that are zero, which times infinity would be no number.
    cohort = Cohort(np.array([[-1.0], [-2.0]]), np.array([2.5, 2.5]), np.array([event, event]))
    grid, rates = TimeGrid(np.arange(1.0, 4.0), 1.0), np.full(3, alpha)
    for beta in (np.zeros(1), np.ones(1), np.array([5000.0])):
        for detail in Detail:
            found = ask(grid, reading, LINKS[name], rates, beta, detail, cohort)
            assert found.loss == np.inf


@pytest.mark.parametrize("reading", READINGS)
def test_rates_that_are_just_numbers_give_the_oracle_s_loss(
    way: str, reading: CensoredInterval
) -> None:
    cohort = Cohort(np.array([[-200.0]]), np.array([2.5]), np.array([False]))
    grid, link = TimeGrid(np.arange(1.0, 4.0), 1.0), LINKS["cloglog"]
    alpha, beta = np.full(3, 708.0), np.ones(1)
    expected = oracle(cohort, grid, reading, link, alpha, beta)
    for detail in Detail:
        found = ask(grid, reading, link, alpha, beta, detail, cohort)
        assert found.loss == pytest.approx(expected.loss, rel=1e-12)


def test_drawing_patients_repeats_them(way: str) -> None:
    grid = grids(COHORT)["intervals"]
    active = np.ones(grid.intervals, dtype=np.bool_)
    patients = prepare(COHORT, grid, "half", active, Scaling.none(3), LINKS["logit"])
    numbers = np.array([5, 5, 17, 250, 9999])
    drawn = patients.draw(numbers)
    rows = [5, 5, 17, 250]
    same = Cohort(COHORT.covariates[rows], COHORT.time[rows], COHORT.event[rows])
    alpha, beta = np.full(grid.intervals, -2.0), np.array([0.1, 0.2, 0.3])
    for detail in Detail:
        found = drawn.derivatives(LINKS["logit"], alpha, beta, detail)
        expected = ask(grid, "half", LINKS["logit"], alpha, beta, detail, same)
        assert found.loss == pytest.approx(expected.loss, rel=1e-13)
        np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-12)
        np.testing.assert_allclose(found.alpha, expected.alpha, rtol=1e-12, atol=1e-14)
