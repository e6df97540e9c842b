from __future__ import annotations

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import NoInferenceError
from fedcox.solvers.newton import Newton
from fedcox.study.fit import estimate
from fedcox.study.inference import inverse_information
from fedcox.study.plan import Plan
from fedcox.survival.link import LINKS
from fedcox.survival.weighted_events import WeightedEvents
from tests.problems import LINK_NAMES, simulated


@pytest.mark.parametrize("link", LINK_NAMES)
def test_a_weighted_loss_gives_scores_and_no_ratios(link: str) -> None:
    weighted = WeightedEvents(LINKS[link], 9.0)
    plan = Plan(("a", "b", "c"), weighted, "include", 20.0, None, 0.0, Newton())
    with pytest.raises(NoInferenceError, match="no ratios, intervals or p-values"):
        estimate(plan, InProcess.from_cohorts({"all": simulated(200, 3)}))


@pytest.mark.parametrize("lost", [0.0, -1e-12])  # by rounding it may be below zero
def test_a_direction_without_information_never_looks_like_a_known_one(lost: float) -> None:
    known, unknown = np.diag(inverse_information(np.diag([4.0, lost])))
    assert known == pytest.approx(0.25, rel=1e-12)
    assert 1e12 < unknown < np.inf
