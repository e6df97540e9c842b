"""POOL, LOCAL, ENS, N-FL-EXACT and WEBDISCO as schemes: Cox's model in five ways of sharing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.scheme import LinearRisk, Recipe, Trained
from fedcox.evaluation.schemes import SCHEMES
from fedcox.federation.center import Center
from fedcox.study.cox import fit_cox
from fedcox.survival.cohort import Cohort, FloatArray
from tests.problems import simulated, split, untied

COHORT = simulated(300, 3, seed=31, unit=20.0)
CENTER = np.random.default_rng(1).choice(3, 300, p=[0.6, 0.3, 0.1])
FEDERATION = InProcess.from_cohorts(split(COHORT, CENTER, 3))
EFRON = Recipe()
BRESLOW = Recipe(ties="breslow")
#: The schemes of this page that see one model for all.
ONE_MODEL = ("POOL", "ENS", "N-FL-EXACT", "WEBDISCO", "WEBDISCO-L-BFGS")


def trained(name: str, federation: InProcess = FEDERATION, recipe: Recipe = EFRON) -> Trained:
    return SCHEMES[name].train(federation, recipe, seed=0)


def coefficients(found: Trained) -> FloatArray:
    (model,) = found.models
    assert isinstance(model, LinearRisk)
    return model.coefficients


def phreg(cohort: Cohort, ties: str, strata: object = None) -> FloatArray:
    model = PHReg(cohort.time, cohort.covariates, status=cohort.event, ties=ties, strata=strata)
    return np.asarray(model.fit(disp=0).params)


@pytest.mark.parametrize("recipe", [EFRON, BRESLOW], ids=lambda recipe: recipe.ties)
def test_pool_is_the_cox_model_of_all_patients(recipe: Recipe) -> None:
    found = trained("POOL", recipe=recipe)
    np.testing.assert_allclose(coefficients(found), phreg(COHORT, recipe.ties), atol=1e-8)
    assert (found.rounds, found.bytes_up, found.bytes_down) == (0, 0, 0)
    assert found.notes == ()


@pytest.mark.parametrize("recipe", [EFRON, BRESLOW], ids=lambda recipe: recipe.ties)
def test_the_exact_naive_optimum_is_stratified_by_center(recipe: Recipe) -> None:
    found = trained("N-FL-EXACT", recipe=recipe)
    expected = phreg(COHORT, recipe.ties, strata=CENTER)
    np.testing.assert_allclose(coefficients(found), expected, atol=1e-8)
    assert found.rounds > 0
    assert found.bytes_up > 0
    assert not np.allclose(expected, phreg(COHORT, recipe.ties), atol=1e-4)


def test_one_center_of_the_naive_federation_is_pool() -> None:
    alone = InProcess.from_cohorts({"all": COHORT})
    np.testing.assert_allclose(
        coefficients(trained("N-FL-EXACT", alone)), coefficients(trained("POOL")), rtol=1e-12
    )


@pytest.mark.parametrize("name", ["WEBDISCO", "WEBDISCO-L-BFGS"])
def test_webdisco_is_pool_with_breslows_ties_and_says_so(name: str) -> None:
    found = trained(name)
    np.testing.assert_allclose(
        coefficients(found), coefficients(trained("POOL", recipe=BRESLOW)), atol=1e-8
    )
    assert any("Breslow" in note for note in found.notes)
    assert trained(name, recipe=BRESLOW).notes == ()
    without_ties = InProcess.from_cohorts(split(untied(COHORT), CENTER, 3))
    assert trained(name, without_ties).notes == ()


def test_second_moments_for_every_event_time_cost_more_than_first_ones() -> None:
    wide = simulated(200, 12, seed=5)
    federation = InProcess.from_cohorts(split(wide, np.arange(200) % 2, 2))
    newton, gradient = (
        trained(name, federation, BRESLOW) for name in ("WEBDISCO", "WEBDISCO-L-BFGS")
    )
    assert newton.rounds < gradient.rounds
    assert newton.bytes_up > gradient.bytes_up
    assert trained("N-FL-EXACT", federation).bytes_up < 0.05 * gradient.bytes_up


def test_local_is_the_cox_model_of_each_center() -> None:
    found = trained("LOCAL")
    parts = split(COHORT, CENTER, 3).values()
    assert len(found.models) == 3
    for model, part in zip(found.models, parts, strict=True):
        assert isinstance(model, LinearRisk)
        np.testing.assert_allclose(model.coefficients, phreg(part, "efron"), atol=1e-8)
    assert (found.rounds, found.bytes_up, found.notes) == (0, 0, ())


def test_the_ensemble_is_the_mean_of_the_local_log_risks() -> None:
    found = trained("ENS")
    (model,) = found.models
    own = [one.risk(COHORT.covariates) for one in trained("LOCAL").models]
    np.testing.assert_allclose(model.risk(COHORT.covariates), np.mean(own, axis=0), atol=1e-12)
    assert found.rounds == 1
    assert found.bytes_up == 3 * 8 * (3 + 3)  # centers × bytes × (coefficients and means)


@pytest.mark.parametrize("name", [*ONE_MODEL, "LOCAL"])
def test_a_missing_value_is_scored(name: str) -> None:
    holes = COHORT.covariates.copy()
    holes[::7, 1] = np.nan
    incomplete = Cohort(holes, COHORT.time, COHORT.event)
    found = trained(name, InProcess.from_cohorts(split(incomplete, CENTER, 3)))
    for model in found.models:
        assert np.isfinite(model.risk(holes)).all()


def uneven() -> InProcess:
    """Beside a large center: nobody, one patient, no event, few events, columns that stand."""
    large = simulated(200, 6, seed=8)
    few = simulated(8, 6, seed=9)
    still = np.column_stack([np.ones((30, 6))])
    parts = {
        "a large": large,
        "b empty": Cohort(np.empty((0, 6)), np.empty(0), np.empty(0, dtype=np.bool_)),
        "c one": Cohort(large.covariates[:1], np.ones(1), np.ones(1, dtype=np.bool_)),
        "d no event": Cohort(few.covariates, few.time, np.zeros(8, dtype=np.bool_)),
        "e few events": few,
        "f still": Cohort(still, large.time[:30], large.event[:30]),
    }
    return InProcess([Center(name, cohort) for name, cohort in parts.items()])


def test_centers_that_cannot_train_are_left_out_and_named() -> None:
    federation = uneven()
    found = trained("LOCAL", federation)
    assert len(found.models) == 2
    for name in ("b empty", "c one", "d no event", "f still"):
        assert any(f"Center '{name}': left out" in note for note in found.notes), name
    assert any("'e few events'" in note and "without bound" in note for note in found.notes)
    assert not any("'a large'" in note for note in found.notes)


def test_notes_of_small_centers_tell_no_count_below_five() -> None:
    notes = trained("LOCAL", uneven()).notes
    for name in ("b empty", "c one"):
        assert any(name in note and "fewer than 5 patients" in note for note in notes)
    assert any("d no event" in note and "fewer than 5 events" in note for note in notes)
    # The one other number is the faint ridge: sizes would differ from fold to fold.
    allowed = {"5", "0.01"}
    assert set(re.findall(r"\d+(?:\.\d+)?", " ".join(notes))) == allowed


@pytest.mark.parametrize("name", [*ONE_MODEL, "LOCAL"])
def test_difficult_centers_give_finite_risks(name: str) -> None:
    found = trained(name, uneven())
    assert found.models
    for model in found.models:
        risk = model.risk(simulated(50, 6, seed=10).covariates)
        assert np.isfinite(risk).all()
        assert np.ptp(risk) > 0


@pytest.mark.parametrize("name", ["POOL", "N-FL-EXACT", "WEBDISCO"])
def test_without_an_optimum_a_faint_ridge_stands_in_and_is_told(name: str) -> None:
    """Everyone with the last column set is spared: its coefficient has no lower bound."""
    spared = np.zeros(300)
    spared[np.flatnonzero(~COHORT.event)[:50]] = 1.0
    more = Cohort(np.column_stack([COHORT.covariates, spared]), COHORT.time, COHORT.event)
    federation = InProcess.from_cohorts(split(more, CENTER, 3))
    found = trained(name, federation, BRESLOW)
    assert any(
        "Cox's model: some coefficient grows without bound" in note for note in found.notes
    )
    bounded = coefficients(found)
    assert -30 < bounded[3] < -2
    # The other coefficients are those of the limit, in which the spared are not at risk.
    plain = InProcess.from_cohorts(
        split(
            Cohort(COHORT.covariates, np.where(spared > 0, 0.0, COHORT.time), COHORT.event),
            CENTER,
            3,
        )
    )
    np.testing.assert_allclose(
        bounded[:3], coefficients(trained(name, plain, BRESLOW)), atol=2e-3
    )
    # With a ridge of the user's own there is an optimum, and nothing to tell.
    assert trained(name, federation, replace(BRESLOW, ridge=1.0)).notes == ()


def test_the_users_ridge_is_on_the_covariates_as_given() -> None:
    recipe = replace(EFRON, ridge=5.0)
    expected = fit_cox(InProcess.from_cohorts({"all": COHORT}), ridge=5.0).coefficients
    np.testing.assert_allclose(coefficients(trained("POOL", recipe=recipe)), expected)


@pytest.mark.parametrize("name", [*ONE_MODEL, "LOCAL"])
def test_a_scheme_says_what_it_is(name: str) -> None:
    scheme = SCHEMES[name]
    assert scheme.name == name
    assert scheme.summary
    assert not scheme.summary.endswith(".")
    assert scheme.federated == (name != "POOL")
