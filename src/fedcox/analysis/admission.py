"""Would the hospitals' own policies let this study run? Said before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence

from fedcox.analysis.asked import asked_by
from fedcox.analysis.noised_fit import spending
from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import AdamSolver, FedavgSolver, Noise, PrivateSolver
from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.privacy.policy import Policy

#: The fewest centers of a secure sum.
_FEWEST_MASKED = 3


def read_policy(given: str) -> Policy:
    """A policy file, or for the word default what a hospital without a file has."""
    return Policy() if given == "default" else Policy.read(given)


def check_policies(study: Study, centers: Sequence[Center]) -> None:
    """Raise what every center's policy is known to refuse, all of it at once."""
    faults = [
        fault if len(centers) == 1 else f"{center.name}: {fault}"
        for center in centers
        if center.gate is not None
        for fault in policy_faults(study, center.gate.policy, centers=len(centers))
    ]
    if faults:
        raise RefusedError("The centers' policies do not allow this study.", faults)


def policy_faults(study: Study, policy: Policy, *, centers: int | None = None) -> list[str]:
    """What one hospital's policy refuses of a study, as far as the study tells."""
    epsilon, delta = _spending(study, centers)
    return policy.faults(
        columns=[covariate.name for covariate in study.covariates],
        questions=asked_by(study),
        noised=study.privacy.noised,
        rounds=_rounds(study),
        centers=centers if study.privacy.secure_sums else None,
        epsilon=epsilon,
        delta=delta,
    )


def _spending(study: Study, centers: int | None) -> tuple[float, float]:
    """Where each center adds all of the noise, a price costs more with every one of them."""
    if not study.privacy.noised:
        return 0.0, 0.0
    noise = study.privacy.noise
    unknown = centers is None and not study.privacy.secure_sums
    if isinstance(noise, Noise) and noise.epsilon is None and unknown:
        return 0.0, noise.delta
    agreed = spending(study, centers or _FEWEST_MASKED)
    return agreed.epsilon, agreed.delta


def _rounds(study: Study) -> int:
    """How often its solver asks, where that is fixed beforehand."""
    solver = study.solver
    if isinstance(solver, AdamSolver):
        return solver.steps + 1
    if isinstance(solver, FedavgSolver):
        return solver.rounds + 1
    return solver.steps if isinstance(solver, PrivateSolver) else 0
