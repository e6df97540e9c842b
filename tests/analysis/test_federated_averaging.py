"""`[solver] method = "fedavg"`: near the pooled fit, and it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lifelines.datasets import load_lung

from fedcox.analysis.estimator import DiscreteTimeCox
from fedcox.analysis.fit import fit
from fedcox.analysis.fitted import FittedStudy
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.errors import ApproximateSolverWarning, StudyError

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


def test_the_fit_is_near_the_pooled_one_and_says_that_it_is_not_it() -> None:
    with pytest.warns(ApproximateSolverWarning, match="near the optimum over all patients"):
        found = fitted(4, method="fedavg")
    exact = fitted(4, method="newton")
    errors = np.array([row.se for row in exact.coefficients])
    off = np.abs(coefficients(found) - coefficients(exact)) / errors
    assert 1e-4 < off.max() < 0.5
    assert found.notices[0].name == "ApproximateSolverWarning"
    assert "NotConvergedWarning" not in {notice.name for notice in found.notices}
    assert not found.converged
    # Two rounds to agree, one for the scale, a hundred of local steps, one for the errors.
    assert found.rounds == 2 + 1 + 100 + 1
    assert {row.query for row in found.ledger} >= {"local steps", "information"}


@pytest.mark.filterwarnings("ignore::fedcox.errors.ApproximateSolverWarning")
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
