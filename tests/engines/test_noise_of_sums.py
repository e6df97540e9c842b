"""Parts of the noise are enough in the smallest sum that hospitals take part in."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dp_accounting")
from fedcox.engines.masked import Masked
from fedcox.errors import SecureSumError
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.bounded_sums import NoisedLifeTable
from fedcox.privacy.identity import Identity
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.study.noised_fit import planned, public_pieces
from fedcox.study.study import Study
from fedcox.survival.time_grid import Pieces
from tests.engines.test_masked import Failing, cohorts

CELLS = 4000
#: Every number is noise, so that its spread is known to about one per cent.
CLOSE = 0.04


def study(needed: int | None) -> Study:
    return Study(
        outcome={"time": "time", "event": "event"},
        covariates={"age": {"type": "number", "min": 0, "max": 1}},
        grid={"horizon": 100.0},
        privacy={"secure_sums": True, "noise": {"epsilon": 3.0, "patients": 500}},
        attendance={} if needed is None else {"needed": needed},
    )


def noise(centers: int, needed: int | None, lost: int) -> tuple[float, float]:
    """The noise of a sum that so many are lost from, and the least that is claimed."""
    plan, parts = study(needed), cohorts(centers, 4)
    identities = {name: Identity.create() for name in parts}
    known = {name: identity.public for name, identity in identities.items()}
    smallest = plan.attendance.among(centers)
    masked = [
        MaskedCenter(
            Center(name, part, noise=_noise(number)),
            SecureSumCenter(
                name, "study", identities[name], known, smallest_sum=max(3, smallest)
            ),
        )
        for number, (name, part) in enumerate(parts.items())
    ]
    federation = Masked("study", known, Failing(masked, {(1, "ask"): list(parts)[:lost]}))
    solver = planned(plan, centers)
    cells = Pieces(np.linspace(0.0, public_pieces(plan).cells.horizon, CELLS + 1))
    release = solver.release(1.0, 1.0)
    reply = federation.ask(NoisedLifeTable(cells, release))
    left = list(parts.values())[lost:]
    exact = sum(NoisedLifeTable(cells, release).summed(part, np.arange(4)) for part in left)
    return float(np.std(reply - exact)), release.noise_multiplier * release.sensitivity


def _noise(number: int) -> NoisedReplies:
    return NoisedReplies("s", 1e-5, randomness=SeededRandomnessForSimulations(3, number))


@pytest.mark.parametrize(
    ("centers", "needed", "lost"),
    [(3, None, 0), (4, None, 0), (6, None, 0), (4, 3, 1), (6, 4, 2), (6, 5, 1), (7, 3, 3)],
)
def test_the_smallest_sum_has_all_of_the_noise_that_is_claimed(
    centers: int, needed: int | None, lost: int
) -> None:
    found, claimed = noise(centers, needed, lost)
    assert claimed * (1.0 - CLOSE) < found < claimed * (1.0 + CLOSE)
    if lost:
        with pytest.raises(SecureSumError, match="are needed"):
            noise(centers, needed, lost + 1)


@pytest.mark.parametrize("centers", [4, 5])
def test_where_all_are_needed_nobody_is_left_out(centers: int) -> None:
    with pytest.raises(SecureSumError, match=f"{centers} are needed"):
        noise(centers, None, 1)
