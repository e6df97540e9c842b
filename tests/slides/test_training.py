"""Options of `fedcox slides train` that are left open: what is trained then?"""

from __future__ import annotations

import pytest

from fedcox.models.predictors.network import Precision
from fedcox.slides.training import SlideNetworkChoice
from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.training import AbstractTrainer

PRIVATE = PrivateNetwork(epsilon=3.0, delta=1e-5, patients=100, steps=5)


def choice(
    device: str = "cpu", precision: Precision | None = None, balanced: bool | None = None
) -> SlideNetworkChoice:
    return SlideNetworkChoice(
        8, 30.0, 900.0, "logit", balanced, "slide", device, precision, seed=0
    )


@pytest.mark.parametrize(
    ("device", "asked", "wanted"),
    [
        ("cpu", None, "float32"),
        ("cuda", None, "bfloat16"),
        ("cuda", "float32", "float32"),
        ("cpu", "float64", "float64"),
    ],
)
def test_products_are_in_the_precision_that_suits_the_device_unless_one_is_asked_for(
    device: str, asked: Precision | None, wanted: Precision
) -> None:
    plan = choice(device, asked).plan(4, NetworkAdam())
    assert (plan.precision, plan.device) == (wanted, device)


@pytest.mark.parametrize(
    ("solver", "asked", "wanted"),
    [(NetworkAdam(), None, True), (PRIVATE, None, False), (NetworkAdam(), False, False)],
)
def test_labels_are_balanced_unless_nobody_may_count_events(
    solver: AbstractTrainer, asked: bool | None, wanted: bool
) -> None:
    assert choice(balanced=asked).plan(4, solver).balanced is wanted
