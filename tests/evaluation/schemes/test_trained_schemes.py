"""MINI, N-FL, DT-FL, PH-FL, their exact optima, and FEDAVG as schemes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import expit

from fedcox.data.synthetic import Split, simulate_paper_cohort, split_cohort
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.evaluation.scheme import LinearRisk, Recipe, Trained
from fedcox.evaluation.schemes import SCHEMES
from fedcox.evaluation.schemes.hazards import HazardModel
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.link import LINKS, LinkName
from fedcox.survival.time_grid import Pieces
from tests.problems import READINGS, simulated, split
from tests.stacked_glm import (
    binomial_glm,
    by_event_times,
    by_pieces,
    by_width,
    design,
    informative,
    poisson_glm,
)

COHORT = simulated(300, 3, seed=31, unit=20.0)
ONE = InProcess.from_cohorts({"all": COHORT})
CENTER = np.random.default_rng(1).choice(4, 300, p=[0.6, 0.3, 0.1, 0.0])  # the last is empty
THREE = InProcess.from_cohorts(split(COHORT, CENTER, 4))
QUICK = Recipe(width=5.0, batches=300, cell_batches=300, learning_rate=0.01)
EXACT = ("DT-FL-NEWTON", "PH-FL-NEWTON")
TRAINED = ("MINI", "N-FL", "DT-FL", "PH-FL", *EXACT, "FEDAVG")


def trained(
    name: str, federation: InProcess = THREE, recipe: Recipe = QUICK, seed: int = 0
) -> Trained:
    return SCHEMES[name].train(federation, recipe, seed)


def coefficients(found: Trained) -> FloatArray:
    (model,) = found.models
    assert isinstance(model, LinearRisk)
    return model.coefficients


@pytest.mark.parametrize("name", TRAINED)
def test_every_scheme_ranks_about_as_well_as_the_pooled_model(name: str) -> None:
    risks = {
        scheme: trained(scheme).models[0].risk(COHORT.covariates) for scheme in (name, "POOL")
    }
    found, pool = (
        concordance_index(COHORT.time, COHORT.event, risk).index for risk in risks.values()
    )
    assert found == pytest.approx(pool, abs=0.02)


@pytest.mark.parametrize("name", TRAINED)
def test_the_seed_decides_what_is_drawn_and_nothing_else_does(name: str) -> None:
    first, again = coefficients(trained(name)), coefficients(trained(name))
    np.testing.assert_array_equal(first, again)
    other = coefficients(trained(name, seed=1))
    assert np.array_equal(first, other) == (name in {*EXACT, "FEDAVG"})


@pytest.mark.parametrize("name", ["MINI", "DT-FL", "PH-FL", *EXACT])
def test_how_patients_are_split_does_not_matter(name: str) -> None:
    found, pooled = trained(name), trained(name, ONE)
    np.testing.assert_allclose(coefficients(found), coefficients(pooled), rtol=1e-8, atol=1e-10)


def test_naive_learning_in_one_center_is_minibatch_training() -> None:
    mini, naive = trained("MINI", ONE), trained("N-FL", ONE)
    np.testing.assert_array_equal(coefficients(mini), coefficients(naive))
    assert not np.allclose(coefficients(trained("N-FL")), coefficients(mini), atol=1e-3)


def test_large_batches_of_patients_lead_to_the_optimum_of_their_loss() -> None:
    recipe = replace(QUICK, batches=1500, batch_size=1500)
    for name, exact in (("MINI", "POOL"), ("N-FL", "N-FL-EXACT")):
        found, optimum = (coefficients(trained(n, recipe=recipe)) for n in (name, exact))
        np.testing.assert_allclose(found, optimum, atol=0.05)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
@pytest.mark.parametrize("width", [5.0, None])
def test_newtons_optimum_is_a_binomial_regression_on_the_stack(
    link: LinkName, width: float | None
) -> None:
    for reading in READINGS:
        recipe = Recipe(width=width, link=link, censored_interval=reading)
        time, event = COHORT.time.tolist(), COHORT.event.tolist()
        rows = (
            by_event_times(time, event, reading)
            if width is None
            else by_width(time, event, width, reading)
        )
        expected = binomial_glm(rows, COHORT.covariates, link).coef
        found = trained("DT-FL-NEWTON", recipe=recipe)
        np.testing.assert_allclose(coefficients(found), expected, atol=1e-7)
        assert found.notes == ()


@pytest.mark.parametrize(
    "changed",
    [{"width": 5.0}, {"edges": (2.0, 9.0, 15.0, 40.0)}, {"pieces": 7}, {}],
    ids=["width", "edges", "pieces", "nothing named"],
)
@pytest.mark.parametrize("balanced", [False, True])
def test_the_optimum_on_pieces_is_a_poisson_regression_on_the_split_rows(
    changed: dict[str, Any], balanced: bool
) -> None:
    recipe = Recipe(balanced=balanced, **changed)
    setting = HazardModel.agreed(THREE, recipe, LINKS["log"], every_column=False).setting
    assert isinstance(setting.grid, Pieces)
    assert setting.grid.unit == 1.0
    assert setting.intervals <= COHORT.event.sum() / 5
    time, event = COHORT.time.tolist(), COHORT.event.tolist()
    rows = by_pieces(time, event, setting.grid.bounds.tolist(), unit=1.0)
    expected = poisson_glm(rows.within(setting.active), COHORT.covariates)[-3:]
    found = trained("PH-FL-NEWTON", recipe=recipe)
    np.testing.assert_allclose(coefficients(found), expected, atol=1e-8)
    assert found.notes == ()
    long = replace(recipe, cell_batches=3000, cell_batch_size=1000, learning_rate=0.003)
    np.testing.assert_allclose(coefficients(trained("PH-FL", recipe=long)), expected, atol=0.05)


def test_with_a_piece_for_every_event_time_the_optimum_is_that_of_coxs_model() -> None:
    found = trained("PH-FL-NEWTON", recipe=Recipe(every_event=True))
    np.testing.assert_allclose(coefficients(found), coefficients(trained("POOL")), atol=0.01)


@pytest.mark.parametrize("width", [5.0, None])
def test_discrete_time_beside_exact_time_is_the_papers(width: float | None) -> None:
    recipe = replace(QUICK, width=width)
    for name in ("DT-FL", "DT-FL-NEWTON"):
        beside = trained(name, recipe=replace(recipe, link="log"))
        (note,) = beside.notes
        assert 'link "logit"' in note
        own = trained(name, recipe=recipe)
        np.testing.assert_array_equal(coefficients(beside), coefficients(own))
        assert own.notes == ()
    for name in ("PH-FL", "PH-FL-NEWTON"):
        np.testing.assert_array_equal(
            coefficients(trained(name, recipe=recipe)),
            coefficients(trained(name, recipe=replace(recipe, link="log"))),
        )


def test_balanced_events_weigh_the_ratio_of_all_centers() -> None:
    rows = by_width(COHORT.time.tolist(), COHORT.event.tolist(), 5.0, "half")
    matrix, happened, weight = design(rows, COHORT.covariates)
    # The paper's stack: every interval up to the last event, with or without one.
    stacked = rows.interval <= rows.interval[rows.event == 1].max()
    cells = float(rows.weight[stacked].sum())
    ratio = (cells - happened.sum()) / happened.sum()
    assert ratio > 3
    reference = sm.GLM(
        happened,
        matrix,
        family=sm.families.Binomial(),
        freq_weights=weight * np.where(happened == 1, ratio, 1.0),
    ).fit(tol=1e-11, tol_criterion="params", maxiter=200)
    expected = reference.params[informative(rows).size :]
    recipe = Recipe(width=5.0, censored_interval="half", balanced=True)
    found = coefficients(trained("DT-FL-NEWTON", recipe=recipe))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    plain = coefficients(trained("DT-FL-NEWTON", recipe=replace(recipe, balanced=False)))
    assert np.abs(found - plain).max() > 0.01
    long = replace(recipe, cell_batches=4000, cell_batch_size=1000, learning_rate=0.003)
    np.testing.assert_allclose(coefficients(trained("DT-FL", recipe=long)), expected, atol=0.05)


def test_a_ridge_is_on_the_covariates_as_given() -> None:
    """Against the penalised cross-entropy of the stack, minimised by scipy."""
    stretched = Cohort(COHORT.covariates * [1.0, 10.0, 1.0], COHORT.time, COHORT.event)
    rows = by_width(COHORT.time.tolist(), COHORT.event.tolist(), 5.0, "include")
    matrix, happened, _ = design(rows, stretched.covariates)
    sign = 1.0 - 2.0 * happened

    def penalised(point: FloatArray) -> tuple[float, FloatArray]:
        theta, beta = matrix @ point, np.append(np.zeros(point.size - 3), point[-3:])
        loss = np.logaddexp(0.0, sign * theta).sum() + 10.0 * beta @ beta
        return float(loss), matrix.T @ (sign * expit(sign * theta)) + 20.0 * beta

    start = np.zeros(matrix.shape[1])
    optimum = minimize(penalised, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    expected = optimum.x[-3:]
    federation = InProcess.from_cohorts(split(stretched, CENTER, 4))
    recipe = replace(QUICK, ridge=20.0, cell_batches=2500, cell_batch_size=500)
    exact = coefficients(trained("DT-FL-NEWTON", federation, recipe))
    np.testing.assert_allclose(exact, expected, atol=1e-6)
    for name in ("DT-FL", "FEDAVG"):
        found = coefficients(trained(name, federation, recipe))
        np.testing.assert_allclose(found * [1, 10, 1], expected * [1, 10, 1], atol=0.06)


@pytest.mark.parametrize(("link", "name"), [("logit", EXACT[0]), ("log", EXACT[1])])
def test_federated_averaging_in_one_center_is_the_exact_optimum(
    link: LinkName, name: str
) -> None:
    recipe = replace(QUICK, link=link)
    found, exact = trained("FEDAVG", ONE, recipe), trained(name, ONE, recipe)
    np.testing.assert_allclose(coefficients(found), coefficients(exact), atol=1e-4)


def test_messages_are_counted() -> None:
    for name in ("N-FL", "DT-FL", "PH-FL"):
        found = trained(name)
        assert found.rounds == 2 + 300  # to agree, and one for each batch
        assert found.bytes_up > 0
        assert found.bytes_down > 0
    assert trained("FEDAVG").rounds == 2 + 1 + 100
    assert trained("MINI").rounds == trained("MINI").bytes_up == 0


@pytest.mark.parametrize("name", TRAINED)
def test_constant_and_repeated_columns_and_gaps_do_no_harm(name: str) -> None:
    x = COHORT.covariates
    gaps = x[:, 0].copy()
    gaps[::7] = np.nan
    table = np.column_stack([gaps, x[:, 1:], x[:, 2], np.full(len(x), 4.0)])
    federation = InProcess.from_cohorts(
        split(Cohort(table, COHORT.time, COHORT.event), CENTER, 4)
    )
    (model,) = trained(name, federation).models
    assert isinstance(model, LinearRisk)
    assert np.isfinite(model.coefficients).all()
    assert model.coefficients[4] == 0.0
    assert np.isfinite(model.risk(table)).all()
    twins = model.coefficients[[2, 3]]
    if name in EXACT:  # without a ridge only one of them has an optimum
        assert twins[1] == 0.0
    else:
        assert twins[0] == pytest.approx(twins[1])


@pytest.mark.parametrize("name", TRAINED)
def test_patients_without_an_event_cannot_be_trained_on(name: str) -> None:
    nothing = Cohort(COHORT.covariates, COHORT.time, np.zeros(300, dtype=np.bool_))
    with pytest.raises(CohortError, match="event"):
        trained(name, InProcess.from_cohorts({"all": nothing}))


@cache
def indices(kind: Split) -> dict[str, float]:
    """c-indices on fresh patients of the paper's generator, trained on a thousand in five."""
    recipe = Recipe(batches=1000, cell_batches=1000)
    drawn = simulate_paper_cohort(6000, 20, rng=np.random.default_rng(2)).cohort
    training, test = (drawn.take(np.arange(*ends)) for ends in ((0, 1000), (1000, 6000)))
    center = split_cohort(training, 5, kind, rng=np.random.default_rng(2))
    federation = InProcess.from_cohorts(
        {f"center {k}": training.take(center == k) for k in range(5)}
    )
    found = {}
    for name in ("POOL", "MINI", "N-FL", "DT-FL", "PH-FL", "PH-FL-NEWTON"):
        (model,) = trained(name, federation, recipe).models
        index = concordance_index(test.time, test.event, model.risk(test.covariates)).index
        assert index is not None
        found[name] = index
    return found


def test_split_at_random_all_schemes_are_alike() -> None:
    found = indices("uniform")
    assert max(found.values()) - min(found.values()) < 0.02


def test_split_by_time_naive_learning_fails_and_discrete_time_does_not_notice() -> None:
    uniform, by_time = indices("uniform"), indices("time")
    assert by_time["N-FL"] < uniform["N-FL"] - 0.1
    for name in ("DT-FL", "PH-FL", "PH-FL-NEWTON"):
        assert by_time[name] == pytest.approx(uniform[name], abs=1e-3)
