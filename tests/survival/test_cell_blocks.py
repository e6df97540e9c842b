from __future__ import annotations

import numpy as np
import pytest

from fedcox.survival.cell_blocks import PassedIntervals
from fedcox.survival.link import LINKS
from tests.problems import LINK_NAMES

RISKS = np.exp(np.linspace(-6.0, 2.0, 33))


def similar(intervals: int, half: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    spread = np.random.default_rng(3).uniform(-1.0, 1.0, intervals)
    return np.asarray(-2.0 + half * spread)


@pytest.mark.parametrize("half", [0.0, 0.004, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("name", [name for name in LINK_NAMES if LINKS[name].smoothness])
def test_values_at_the_points_give_those_at_every_interval(name: str, half: float) -> None:
    link, alpha = LINKS[name], similar(40, half)
    points = PassedIntervals(link, alpha).first(40)
    assert points is not None
    assert points.rates.size < 40
    v = np.exp(alpha)[:, None] * RISKS
    between = points.rates[:, None] * RISKS
    for exact, known in (
        *zip(link.at_risk(v), link.at_risk(between), strict=True),
        (link.information(v), link.information(between)),
    ):
        np.testing.assert_allclose(points.spread(known), exact, rtol=1e-11)
        np.testing.assert_allclose(points.weight @ known, exact.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_hazards_far_apart_get_no_points(name: str) -> None:
    alpha = similar(40, 3.0)
    assert PassedIntervals(LINKS[name], alpha).first(40) is None
    alpha[0] = -np.inf
    assert PassedIntervals(LINKS[name], alpha).first(40) is None


def test_few_intervals_get_no_points() -> None:
    assert PassedIntervals(LINKS["logit"], similar(6, 0.2)).first(6) is None
