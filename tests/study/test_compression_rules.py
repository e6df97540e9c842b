"""What a study file may say about compression."""

from __future__ import annotations

from typing import Any

import pytest

from fedcox.errors import StudyError
from fedcox.solvers.adam import Adam
from fedcox.study.plan import Plan
from fedcox.study.study import Study


def study(*, secure: bool = False, **solver: Any) -> Study:
    return Study(
        outcome={"time": "days", "event": "died"},
        covariates=["age"],
        grid={"width": 30, "horizon": 900},
        solver={"method": "adam", **solver},
        privacy={"secure_sums": secure},
    )


def faults(**settings: Any) -> str:
    with pytest.raises(StudyError) as refused:
        study(**settings)
    return "\n".join(refused.value.faults)


def test_a_plan_compresses_as_the_study_says() -> None:
    assert Plan.of(study()).solver == Adam()
    chosen = study(compression="top-k", keep=0.25, seed=3)
    assert Plan.of(chosen).solver == Adam(compression="top-k", keep=0.25, seed=3)
    assert Study.parse(chosen.to_toml()) == chosen


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("float32", "eight bytes"),
        ("8-bit", "scale"),
        ("sign", "signs do not add"),
        ("top-k", "depend on its patients"),
    ],
)
def test_what_does_not_add_is_refused_under_secure_sums(name: str, reason: str) -> None:
    told = faults(compression=name, secure=True)
    assert f'"{name}" does not go with [privacy] secure_sums' in told
    assert reason in told
    assert '"random-k"' in told
    assert study(compression=name).privacy.secure_sums is False


@pytest.mark.parametrize("name", ["none", "random-k"])
def test_what_adds_goes_with_secure_sums(name: str) -> None:
    assert study(compression=name, secure=True).privacy.secure_sums


@pytest.mark.parametrize("name", ["none", "float32", "8-bit", "sign"])
def test_a_share_that_would_do_nothing_is_refused(name: str) -> None:
    assert "[solver] keep" in faults(compression=name, keep=0.2)


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.5])
def test_a_share_is_above_nothing_and_at_most_all(keep: float) -> None:
    assert "[solver] keep" in faults(compression="top-k", keep=keep)


def test_everything_wrong_is_told_at_once() -> None:
    told = faults(compression="sign", keep=2.0, secure=True)
    assert len(told.splitlines()) == 3


def test_a_name_misspelt_is_told_with_those_there_are() -> None:
    told = faults(compression="8bit")
    assert '"8-bit"' in told
    assert "Did you mean" in told


def test_a_compression_that_is_no_name_is_a_fault_and_no_crash() -> None:
    assert "[solver] compression" in faults(compression=["sign"], keep=0.1, secure=True)


def test_other_solvers_do_not_compress() -> None:
    assert "a setting of adam" in faults(method="newton", compression="sign")
