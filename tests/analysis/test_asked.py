"""The list that a data manager approves, against what studies ask."""

from __future__ import annotations

import warnings

import pytest

from fedcox.analysis.asked import asked_by
from fedcox.analysis.fit import fit
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from tests.deployment.hospitals import STUDY, frames, study

SOLVERS = {
    "newton": 'method = "newton"',
    "lbfgs": 'method = "lbfgs"',
    "adam": 'method = "adam"\nsteps = 3',
    "batches": 'method = "adam"\nsteps = 3\nbatch_size = 50',
    "compressed": 'method = "adam"\nsteps = 3\ncompression = "8-bit"',
    "compressed batches": ('method = "adam"\nsteps = 3\nbatch_size = 50\ncompression = "sign"'),
    "fedavg": 'method = "fedavg"\nrounds = 2',
}
GRIDS = {
    "as given": STUDY,
    "no horizon": STUDY.replace("horizon = 720\n", ""),
    "event times": STUDY.replace("width = 60\nhorizon = 720\n", 'times = "events"\n'),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_study_asks_nothing_that_is_not_on_its_list(solver: str, grid: str) -> None:
    plan = study(f"{GRIDS[grid]}\n[solver]\n{SOLVERS[solver]}\n")
    assert asked(plan) <= set(asked_by(plan))


@pytest.mark.parametrize("grid", ["as given", "no horizon"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "adam"])
def test_nor_does_one_under_masks(solver: str, grid: str) -> None:
    masked = "[privacy]\nsecure_sums = true"
    plan = study(f"{GRIDS[grid]}\n[solver]\n{SOLVERS[solver]}\n{masked}\n")
    assert asked(plan) - {"key set-up"} <= set(asked_by(plan))


def asked(plan: Study) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fitted = fit(plan, InProcess.from_frame(plan, frames()))
    return {row.query for row in fitted.ledger}
