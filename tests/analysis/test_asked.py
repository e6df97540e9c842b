"""The list that a data manager approves, against what studies ask."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from fedcox.analysis.asked import asked_by
from fedcox.analysis.fit import fit
from fedcox.analysis.kept_study import KeptStudy
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from fedcox.federation.center import Center
from fedcox.federation.query import AbstractQuery
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
    """The names of all questions; and each keeps to what the study fixes."""
    federation = Heard(InProcess.from_frame(plan, frames()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fitted = fit(plan, federation.inner)
    assert federation.queries
    assert all(map(KeptStudy(plan).keeps_to, federation.queries))
    return {row.query for row in fitted.ledger}


class Heard:
    """Centers in this process that remember what they were asked."""

    def __init__(self, inner: InProcess) -> None:
        self.queries: list[AbstractQuery[Any]] = []
        heard = self.queries

        class Listening(Center):
            def answer(self, query: Any, **how: Any) -> Any:
                heard.append(query)
                return super().answer(query, **how)

        self.inner = InProcess(
            [Listening(each.name, each.cohort, each.dropped) for each in inner.centers]
        )


@pytest.mark.parametrize(
    "change",
    [
        ("width = 60", "width = 1"),
        ("width = 60", "width = 30"),
        ("horizon = 720", "horizon = 701"),
        ("horizon = 720\n", ""),
        ("width = 60\nhorizon = 720", 'times = "events"'),
        ("[grid]", '[model]\nlink = "logit"\n\n[grid]'),
        ("[grid]", '[model]\ncensored_interval = "half"\n\n[grid]'),
    ],
    ids=["by day", "by month", "another end", "any end", "event times", "link", "reading"],
)
def test_questions_of_another_study_do_not_keep_to_this_one(change: tuple[str, str]) -> None:
    federation = Heard(InProcess.from_frame(study(), frames()))
    other = study(STUDY.replace(*change))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fit(other, federation.inner)
    assert not all(map(KeptStudy(study()).keeps_to, federation.queries))
