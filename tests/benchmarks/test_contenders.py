from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.pytorch import stacked_indices
from benchmarks.measure import measure
from benchmarks.patients import Patients, simulate
from benchmarks.problems import PROBLEMS, Problem
from benchmarks.reference import optimum
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index
from fedcox.survival.person_periods import stack
from fedcox.survival.time_grid import TimeGrid

# scikit-learn stops at a gradient of 1e-6 per row; the others go on to the optimum. Pieces of
# time are another model than Cox's, near to it.
TOLERANCE = {
    "stacked_sklearn": 1e-2,
    "fedcox_log": 0.02,
    "fedcox_log_two_threads": 0.02,
    "fedcox_log_events": 1e-3,
}


@pytest.fixture(scope="module")
def patients() -> Patients:
    return simulate(600, 4, np.random.default_rng(2))


def small(name: str) -> Problem:
    return replace(PROBLEMS[name], patients=600, columns=4, centers=7)


FITS = [
    (problem, name)
    for problem in (
        "hundred_thousand",
        "hundred_thousand_all_times",
        "thousand_centers",
        "cox_wide",
    )
    for name in PROBLEMS[problem].contenders
]


@pytest.mark.parametrize(("problem_name", "name"), FITS)
# Thirty intervals on 600 patients: some have no event, and fedcox says so.
@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_every_contender_reaches_its_reference(
    patients: Patients, problem_name: str, name: str
) -> None:
    problem, contender = small(problem_name), CONTENDERS[name]
    reason = contender.unavailable()
    if reason is not None:
        pytest.skip(reason)
    model = contender.reference(problem)
    assert model is not None
    outcome = measure(contender, problem, patients)
    expected = optimum(patients, model, problem.width).coefficients
    # Every event time: the discrete model comes near Cox's, and is not it.
    discrete = problem.intervals is None and contender.model != "cox"
    tolerance = 0.05 if discrete else TOLERANCE.get(name, 1e-6)
    assert outcome.coefficients == pytest.approx(expected.tolist(), abs=tolerance)
    assert outcome.measurement is not None
    assert outcome.measurement.seconds > 0


def test_both_trainings_learn_to_rank(patients: Patients) -> None:
    problem = replace(small("paper_training"), batches=600)
    truth = concordance_index(patients.time, patients.event, patients.log_risk).index
    assert truth is not None
    for name in problem.contenders:
        if CONTENDERS[name].unavailable() is not None:
            continue
        found = measure(CONTENDERS[name], problem, patients).concordance
        assert found == pytest.approx(truth, abs=0.02)


def test_the_rows_that_pytorch_gets_are_those_of_the_stack(patients: Patients) -> None:
    patient, interval, event = stacked_indices(patients)
    rows = stack(
        Cohort(patients.covariates, patients.time, patients.event),
        TimeGrid.at_events(patients.time[patients.event]),
        "include",
    )
    assert patient.tolist() == rows.patient.tolist()
    assert interval.tolist() == rows.interval.tolist()
    assert event.tolist() == rows.event.tolist()


def test_both_concordances_are_the_same_number(patients: Patients) -> None:
    problem = small("concordance_million")
    ours, theirs = (
        measure(CONTENDERS[name], problem, patients).concordance for name in problem.contenders
    )
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_every_contender_of_a_problem_exists() -> None:
    for problem in PROBLEMS.values():
        assert set(problem.baselines) <= set(problem.contenders)
        if problem.task not in ("imports", "secure_sum"):  # which have their own
            assert set(problem.contenders) <= set(CONTENDERS)


def test_a_missing_program_is_a_reason_to_leave_out() -> None:
    absent = replace(CONTENDERS["r_coxph"], program="no-such-program")
    assert absent.unavailable() == "no-such-program not found"
    absent = replace(CONTENDERS["lifelines"], distribution="no-such-package")
    assert absent.unavailable() == "no-such-package not installed"
