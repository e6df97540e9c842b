"""Would the hospitals' own policies let this study run? Told before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedcox.analysis.study import Study
from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort


def read_policy(given: str) -> Policy:
    """A policy file, or for the word default the limits that it would have."""
    return Policy() if given == "default" else Policy.read(given)


def check_policies(study: Study, centers: Sequence[Center]) -> None:
    """Raise what every center's policy is known to refuse, all of it at once."""
    faults = [
        fault if len(centers) == 1 else f"{center.name}: {fault}"
        for center in centers
        if center.gate is not None
        for fault in policy_faults(
            study, center.gate.policy, center.cohort, centers=len(centers)
        )
    ]
    if faults:
        raise RefusedError("The centers' policies do not allow this study.", faults)


def policy_faults(
    study: Study, policy: Policy, cohort: Cohort, *, centers: int | None = None
) -> list[str]:
    """What one hospital's policy refuses of a study, as far as its own file tells."""
    private = study.privacy.differential
    return policy.faults(
        columns=[covariate.name for covariate in study.covariates],
        patients=cohort.patients,
        events=int(np.count_nonzero(cohort.event)),
        centers=centers,
        secure_sums=study.privacy.secure_sums,
        smallest_group=study.privacy.group,
        epsilon=math.inf if private is None else private.epsilon,
        delta=None if private is None else private.delta,
    )
