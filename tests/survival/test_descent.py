from __future__ import annotations

import numpy as np
import pytest

from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import DESCENTS, AdamDescent, DescentName, GradientDescent


def kingma_and_ba(gradients: list[FloatArray], rate: float) -> FloatArray:
    """Algorithm 1 of the paper, line by line, from zero."""
    theta = m = v = np.zeros_like(gradients[0])
    for t, g in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
        theta = theta - rate * m_hat / (np.sqrt(v_hat) + 1e-8)
    return theta


def test_adam_is_the_published_algorithm() -> None:
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=6) * (rng.uniform(size=6) < 0.5) for _ in range(300)]
    point = np.zeros(6)
    descent = AdamDescent(6)
    for gradient in gradients:
        descent.step(point, gradient, 0.01)
    np.testing.assert_allclose(point, kingma_and_ba(gradients, 0.01), rtol=1e-10)


def test_adam_leaves_a_coordinate_without_a_gradient_where_it_is() -> None:
    point = np.array([1.0, 2.0])
    AdamDescent(2).step(point, np.array([0.0, 5.0]), 0.1)
    assert point[0] == 1.0
    assert point[1] == pytest.approx(1.9)


def test_gradient_descent_goes_straight_down() -> None:
    point, gradient = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    GradientDescent(2).step(point, gradient, 0.1)
    np.testing.assert_allclose(point, [0.95, 2.1])
    np.testing.assert_array_equal(gradient, [0.5, -1.0])


@pytest.mark.parametrize("name", DESCENTS)
def test_every_descent_finds_the_bottom_of_a_bowl(name: DescentName) -> None:
    point, bottom = np.array([3.0, -1.0]), np.array([1.0, 0.5])
    descent = DESCENTS[name](2)
    for _ in range(4000):
        descent.step(point, 2.0 * (point - bottom), 0.005)
    np.testing.assert_allclose(point, bottom, atol=1e-6)
