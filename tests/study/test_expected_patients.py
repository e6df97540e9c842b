"""The number of patients that a study plans with, against how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, StudyError
from fedcox.federation.query import AbstractQuery
from fedcox.study.expected_patients import check_all, check_own, check_times
from fedcox.study.noised_fit import fit_noised, noised
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort


def study(patients: int, epsilon: float = 30.0) -> Study:
    return Study(
        outcome={"time": "days", "event": "died"},
        covariates={"age": {"type": "number", "min": 20, "max": 100}},
        grid={"pieces": 4, "horizon": 300},
        privacy={"noise": {"epsilon": epsilon, "patients": patients}},
    )


def hospitals(plan: Study, size: int = 600) -> InProcess:
    rng = np.random.default_rng(2)
    time = rng.exponential(200.0, size)
    frame = pd.DataFrame(
        {
            "days": np.ceil(np.minimum(time, 300.0)),
            "died": (time < 300.0).astype(int),
            "age": rng.integers(30, 90, size),
            "site": rng.choice(["a", "b", "c"], size),
        }
    )
    return noised(plan, InProcess.from_frame(plan, frame, center="site"))


class Counted:
    """A federation of which is known how many rounds it was asked."""

    def __init__(self, federation: InProcess) -> None:
        self._federation, self.rounds = federation, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def ask(self, query: AbstractQuery[Any]) -> Any:
        self.rounds += 1
        return self._federation.ask(query)

    def ask_together(self, queries: Sequence[AbstractQuery[Any]], each: Any = ()) -> list[Any]:
        self.rounds += 1
        return self._federation.ask_together(queries, each)


def cohorts() -> list[Cohort]:
    return [center.cohort for center in hospitals(study(600)).centers]


@pytest.mark.parametrize("step", [60.0, 150.0])
def test_events_on_few_times_need_the_unit_in_which_they_are_recorded(step: float) -> None:
    """As years or months are: taken for exact, coefficients were five standard errors off."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "days": step * np.ceil(rng.exponential(200.0, 600) / step).clip(1, 300.0 / step),
            "died": 1,
            "age": rng.integers(30, 90, 600),
            "site": rng.choice(["a", "b", "c"], 600),
        }
    )
    plan = study(600)
    federation = InProcess.from_frame(plan, frame, center="site")
    with pytest.raises(CohortError, match="the events are on few times") as refused:
        check_all(plan, [center.cohort for center in federation.centers])
    assert "resolution is missing" in str(refused.value)
    with pytest.raises(CohortError, match=r"a\.csv"):
        check_times(plan, federation.centers[0].cohort, "a.csv")
    tables = plan.to_dict()
    tables["outcome"]["resolution"] = step
    check_times(Study.from_dict(tables), federation.centers[0].cohort, "a.csv")


@pytest.mark.parametrize(
    ("planned", "fits"), [(390, False), (410, True), (1190, True), (1210, False)]
)
def test_who_holds_all_files_is_told_before_anything_is_asked(planned: int, fits: bool) -> None:
    if fits:
        check_all(study(planned), cohorts())
        return
    with pytest.raises(StudyError, match=r"patients: found 600 .* names") as told:
        check_all(study(planned), cohorts())
    assert "stays spent" not in str(told.value)


def test_one_hospital_alone_can_only_have_too_many() -> None:
    check_own(study(600), 1, Path("a.csv"))
    check_own(study(600), 900, Path("a.csv"))
    with pytest.raises(CohortError, match="more patients than the study plans with"):
        check_own(study(600), 901, Path("a.csv"))


@pytest.mark.parametrize("planned", [150, 2400])
def test_between_hospitals_the_first_noised_sum_tells(planned: int) -> None:
    plan = study(planned)
    federation = Counted(hospitals(plan))
    with pytest.raises(StudyError, match=r"found about \d+ \(give or take \d+\)") as told:
        fit_noised(plan, federation)  # as a coordinator who has no files
    assert federation.rounds == 1
    assert "stays spent" in str(told.value)


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_what_noise_alone_explains_ends_nothing() -> None:
    """At so small an epsilon the table says nothing of how many there are."""
    plan = study(1300, epsilon=0.05)
    for _ in range(20):
        assert not fit_noised(plan, hospitals(plan)).converged
