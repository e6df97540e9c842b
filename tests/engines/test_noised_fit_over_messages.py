"""A study under noise is the same fit over messages as in one process, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.engines.masked import Masked
from fedcox.engines.nvflare.center_end import CenterEnd, OpenStudy
from fedcox.engines.nvflare.coordinator_end import (
    CoordinatorEnd,
    RemoteFederation,
    RemoteMaskedCenters,
)
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter
from fedcox.federation.query import Federation
from fedcox.privacy.identity import Identity
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.study.asked import NOISED
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from tests.engines.nvflare.direct_transport import DirectTransport, OpenAdmission, invite
from tests.study.test_noised_fit import CENTERS, EACH, seeded, tables

NOISE = {"epsilon": 12.0, "patients": CENTERS * EACH, "events": 1400}


def under_noise(*, secure_sums: bool) -> Study:
    return Study(**tables(privacy={"secure_sums": secure_sums, "noise": NOISE}))


def over_messages(study: Study) -> Federation:
    """Questions and replies as bytes, to sites that answer nothing without noise."""
    centers = {center.name: center for center in seeded(study).centers}
    masked: dict[str, MaskedCenter] = {}
    identities = {name: Identity.create() for name in centers}
    known = {name: identity.public for name, identity in identities.items()}
    if study.privacy.secure_sums:
        masked = {
            name: MaskedCenter(
                center,
                SecureSumCenter(name, "code", identities[name], known, smallest_sum=CENTERS),
            )
            for name, center in centers.items()
        }
    sites = {name: site(center, masked.get(name)) for name, center in centers.items()}
    board = CoordinatorEnd(DirectTransport(sites), needed=3, timeout=60.0)
    invite(board, lambda _, told: None)
    if masked:
        return Masked("code", known, RemoteMaskedCenters(board))
    return RemoteFederation(board, len(study.schema.encoded_names), None)


def site(center: Center, masked: MaskedCenter | None) -> CenterEnd:
    noise_only = masked is None
    opened = OpenStudy(center, frozenset(NOISED), b"schema", masked, noise_only)
    return CenterEnd(center.name, OpenAdmission(opened))


@pytest.mark.parametrize("secure_sums", [False, True])
def test_it_is_the_fit_of_one_process_bit_for_bit(secure_sums: bool) -> None:
    study = under_noise(secure_sums=secure_sums)
    here, there = fit(study, seeded(study)), fit(study, over_messages(study))
    assert there.inferred
    assert there.coefficients == here.coefficients
    assert there.baseline == here.baseline
    assert there.guarantee == here.guarantee
    assert there.notices == here.notices
    assert there.rounds == here.rounds
    np.testing.assert_array_equal(there.covariance, here.covariance)
    assert asked(there) == asked(here)


def asked(fitted: FittedStudy) -> list[tuple[object, ...]]:
    """What every center answered, and how it was protected."""
    return [
        (row.round, row.center, row.query, row.numbers_up, row.protection, row.epsilon)
        for row in fitted.ledger
        if row.protection != "keys"
    ]
