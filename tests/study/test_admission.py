from __future__ import annotations

import pytest

from fedcox.errors import InputError
from fedcox.federation.policy import Policy
from fedcox.study.admission import policies_by_center

OWN, OTHERS = Policy(), Policy()


def test_a_centers_own_policy_goes_before_that_of_all_others() -> None:
    found = policies_by_center({"a": OWN, None: OTHERS}, ["a", "b"])
    assert list(found) == ["a", "b"]
    assert found["a"] is OWN
    assert found["b"] is OTHERS
    assert list(policies_by_center({"a": OWN}, ["a", "b"])) == ["a"]
    assert policies_by_center({}, ["a"]) == {}


def test_policies_of_centers_that_are_not_there_are_told_at_once() -> None:
    with pytest.raises(InputError) as told:
        policies_by_center({"x": OWN, "y": OWN, "a": OWN, None: OTHERS}, ["b", "a"])
    assert list(told.value.faults) == [
        "'x' is not among a, b.",
        "'y' is not among a, b.",
    ]
