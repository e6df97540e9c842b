"""`[solver] method = "fedavg"`: near the pooled fit, and it says so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lifelines.datasets import load_lung

from fedcox.data.synthetic import simulate_hospitals
from fedcox.engines.in_process import InProcess
from fedcox.errors import ApproximateSolverWarning, NotConvergedWarning, StudyError
from fedcox.study.estimator import DiscreteTimeCox
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.simulation import clinical_study
from fedcox.study.study import Study
from fedcox.study.study_tables import FedavgSolver

pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.EmptyIntervalsWarning")


def study(**solver: Any) -> Study:
    return Study(
        outcome={"time": "time", "event": "status"},
        covariates=["age", "sex", "ph.ecog"],
        grid={"width": 90},
        solver=solver,
    )


def fitted(centers: int, **solver: Any) -> FittedStudy:
    frame = load_lung()[["time", "status", "age", "sex", "ph.ecog"]].dropna()
    frame["hospital"] = np.arange(len(frame)) % centers
    plan = study(**solver)
    return fit(plan, InProcess.from_frame(plan, frame, center="hospital"))


def coefficients(fit_: FittedStudy) -> Any:
    return np.array([row.coef for row in fit_.coefficients])


def names(fit_: FittedStudy) -> set[str]:
    return {notice.name for notice in fit_.notices} - {"JoinedIntervalsWarning"}


def off_by(found: FittedStudy, exact: FittedStudy) -> float:
    """The largest distance of a coefficient, in standard errors of the exact fit."""
    errors = np.array([row.se for row in exact.coefficients])
    return float((np.abs(coefficients(found) - coefficients(exact)) / errors).max())


def told_distance(found: FittedStudy) -> float:
    told = re.search(
        r"up to about ([0-9.]+) (?:of a standard error|standard errors)\.",
        found.notices[0].text,
    )
    assert told is not None
    return float(told[1])


def test_the_fit_is_near_the_pooled_one_and_says_how_near() -> None:
    with pytest.warns(ApproximateSolverWarning, match="It ended off that optimum"):
        found = fitted(4, method="fedavg")
    exact = fitted(4, method="newton")
    off = off_by(found, exact)
    assert 1e-4 < off < 0.5
    assert off <= told_distance(found) + 0.005 < 0.5
    assert names(found) == {"ApproximateSolverWarning"}
    assert "as if that were the optimum" in found.notices[0].text
    assert not found.converged
    # Two rounds to agree, one for the scale, a hundred of local steps, one for the errors.
    assert found.rounds == 2 + 1 + 100 + 1
    assert {row.query for row in found.ledger} >= {"local steps", "information"}


def test_one_local_step_to_the_end_is_the_pooled_fit_and_needs_no_notice() -> None:
    found = fitted(4, method="fedavg", local_steps=1)
    exact = fitted(4, method="newton")
    assert found.converged
    assert names(found) == set()
    assert off_by(found, exact) < 0.01
    assert found.likelihood_ratio is not None
    assert exact.likelihood_ratio is not None
    statistic = exact.likelihood_ratio["statistic"]
    assert found.likelihood_ratio["statistic"] == pytest.approx(statistic, abs=1e-4)


def test_one_local_step_cut_short_asks_for_more_rounds() -> None:
    with pytest.warns(NotConvergedWarning, match="after 3 steps"):
        found = fitted(4, method="fedavg", local_steps=1, rounds=3)
    assert names(found) == {"NotConvergedWarning"}
    assert "Allow more rounds" in found.notices[0].text
    assert told_distance(found) >= 0.9 * off_by(found, fitted(4, method="newton"))


@pytest.mark.parametrize(
    "solver",
    [
        {"method": "fedavg"},
        {"method": "fedavg", "descent": "adam"},
        {"method": "fedavg", "descent": "adam", "learning_rate": 0.2},
        {"method": "adam", "steps": 5},
        {"method": "lbfgs", "max_rounds": 2},
        {"method": "newton", "max_rounds": 1},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_no_solver_tests_a_likelihood_that_is_not_at_its_maximum(
    solver: dict[str, Any], tmp_path: Path
) -> None:
    found = fitted(4, **solver)
    assert not found.converged
    assert found.likelihood_ratio is None
    (notice,) = [one for one in found.notices if one.name != "JoinedIntervalsWarning"]
    assert "There is no likelihood-ratio test." in notice.text
    assert "off by up to" in notice.text or "too far off to say" in notice.text
    found.save(tmp_path / "fit.json")
    assert json.loads((tmp_path / "fit.json").read_text())["likelihood_ratio"] is None


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_adam_on_unlike_hospitals_does_not_look_like_a_test() -> None:
    plan = clinical_study()
    plan = plan.model_copy(
        update={"solver": FedavgSolver(method="fedavg", descent="adam", learning_rate=0.2)}
    )
    simulated = simulate_hospitals(300, 12, rng=np.random.default_rng(1))
    found = fit(plan, InProcess.from_frame(plan, simulated.frame, center="hospital"))
    assert found.log_likelihood < found.null_log_likelihood  # once told as 0.0, p >0.99
    assert found.likelihood_ratio is None
    assert "too far off to say how far" in found.notices[0].text


@pytest.mark.parametrize("descent", ["scaled", "sgd", "adam"])
@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_a_rate_left_out_suits_the_descent(descent: str) -> None:
    exact = fitted(4, method="newton")
    assert off_by(fitted(4, method="fedavg", descent=descent), exact) < 0.6


@pytest.mark.filterwarnings("ignore::fedcox.errors.NotConvergedWarning")
def test_the_keys_of_the_study_reach_the_solver() -> None:
    found = fitted(
        2, method="fedavg", rounds=3, local_steps=1, learning_rate=0.5, descent="sgd"
    )
    assert found.rounds == 2 + 3 + 1
    assert len(found.convergence) == 3
    assert found.convergence[-1].loss < found.convergence[0].loss


def test_a_study_of_federated_averaging_survives_toml_and_refuses_strange_keys() -> None:
    plan = study(method="fedavg", rounds=20)
    assert Study.parse(plan.to_toml()) == plan
    with pytest.raises(StudyError) as told:
        study(method="fedavg", local_steps=0, steps=3, descent="newton")
    text = str(told.value)
    assert "[solver] local_steps" in text
    assert "[solver] steps" in text
    assert "[solver] descent" in text


def test_the_estimator_has_one_center_and_nothing_to_average() -> None:
    model = DiscreteTimeCox(solver="fedavg")  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="must be one of newton, lbfgs, adam"):
        model.fit([[0.0], [1.0]], ([1, 2], [True, True]))
