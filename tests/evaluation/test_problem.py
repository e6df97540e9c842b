from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcox.data.synthetic import Split
from fedcox.evaluation.problem import FixedPatients, PaperPatients, arrays_hash, renumbered
from fedcox.survival.cohort import Cohort
from tests.problems import simulated, split

WHOLE = simulated(30, 2, seed=1)


def test_every_seed_draws_patients_of_its_own_and_the_same_ones_again() -> None:
    problem = PaperPatients(60, 4, 3)
    first, again, other = (arrays_hash(problem.cohorts(seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert problem.drawn_anew


@pytest.mark.parametrize("name", ["uniform", "time", "covariate", "dirichlet"])
def test_another_split_puts_the_same_patients_into_other_centers(name: Split) -> None:
    uniform = PaperPatients(60, 4, 3)
    other = replace(uniform, split=name)
    assert tuple(other.cohorts(2)) == other.centers == ("center 1", "center 2", "center 3")
    for left, right in zip(in_order(uniform), in_order(other), strict=True):
        assert np.array_equal(left, right)


def in_order(problem: PaperPatients) -> tuple[np.ndarray, ...]:
    parts = problem.cohorts(2).values()
    order = np.argsort(np.concatenate([part.number for part in parts]))
    return tuple(
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("number", "time", "event", "covariates")
    )


def test_centers_by_time_follow_each_other() -> None:
    parts = list(PaperPatients(60, 4, 3, split="time").cohorts(0).values())
    assert parts[0].time.max() <= parts[1].time.min()
    assert parts[1].time.max() <= parts[2].time.min()


def test_fixed_patients_are_the_same_for_every_seed_and_know_their_centers() -> None:
    parts = {
        **split(WHOLE, np.arange(30) % 3, 3),
        "empty": split(WHOLE, np.ones(30, dtype=np.int64), 1)["center 00"],
    }
    problem = FixedPatients.of(parts)
    assert problem.centers == ("center 00", "center 01", "center 02")
    assert set(problem.cohorts(0)) == {*problem.centers, "empty"}
    assert arrays_hash(problem.cohorts(0)) == arrays_hash(problem.cohorts(5))
    json.dumps([problem.fingerprint(), PaperPatients().fingerprint()], allow_nan=False)


@pytest.mark.parametrize("field", ["covariates", "time", "event", "number"])
def test_any_change_of_any_patient_changes_the_hash(field: str) -> None:
    parts = split(WHOLE, np.arange(30) % 3, 3)
    cohort = parts["center 01"]
    values = np.array(getattr(cohort, field))
    values.flat[-1] = not values.flat[-1] if field == "event" else values.flat[-1] + 1
    values_of: dict[str, Any] = {field: values}
    changed = replace(cohort, **values_of)
    assert arrays_hash(parts) != arrays_hash({**parts, "center 01": changed})
    assert arrays_hash(parts) == arrays_hash(dict(reversed(parts.items())))


def test_a_patient_in_another_center_changes_the_hash() -> None:
    assert arrays_hash(split(WHOLE, np.arange(30) % 3, 3)) != arrays_hash(
        split(WHOLE, (np.arange(30) + 1) % 3, 3)
    )


def test_patients_left_over_keep_their_order_when_numbered_again() -> None:
    parts = split(WHOLE, np.arange(30) % 3, 3)
    del parts["center 01"]
    numbers = {name: list(part.number) for name, part in renumbered(parts).items()}
    assert numbers == {"center 00": list(range(0, 20, 2)), "center 02": list(range(1, 20, 2))}


def test_patients_of_several_files_are_numbered_once_each() -> None:
    one = Cohort(np.zeros((3, 1)), np.ones(3), np.ones(3, dtype=np.bool_))
    numbers = [part.number for part in renumbered({"a": one, "b": one}).values()]
    assert sorted(np.concatenate(numbers)) == list(range(6))
