"""Would the hospitals' own policies and budgets let this study run? Said before it begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from fedcox.engines.in_process import InProcess
from fedcox.errors import BudgetError, InputError, RefusedError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.policy import Policy, budget_under
from fedcox.privacy.budget import Budget
from fedcox.privacy.study_memory import StudyMemory
from fedcox.study.asked import asked_by
from fedcox.study.noised_fit import Spending, spending
from fedcox.study.study import Study
from fedcox.study.study_tables import AdamSolver, FedavgSolver, Noise

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


def with_budgets(study: Study, federation: InProcess, folder: str | Path) -> InProcess:
    """The same centers, each with the budget of its patients in a file of this folder.

    What a budget allows in all is the word of the center's own policy; without a word nothing
    is refused, and all is counted.
    """
    agreed = spending(study, len(federation.centers))
    faults, centers = [], []
    for center in federation.centers:
        if set(center.name) & set("/\\") or center.name.startswith("."):
            faults.append(f"{center.name}: a budget's file cannot have this name.")
            continue
        policy = None if center.gate is None else center.gate.policy
        budget = budget_under(policy, Path(folder) / f"{center.name}.jsonl")
        try:
            # All are looked at before the first pays: a refused study must cost nobody.
            budget.check(epsilon=agreed.epsilon, delta=agreed.delta)
        except BudgetError as error:
            faults.append(f"{center.name}: {error.subject} {error.faults[0]}")
        centers.append(replace(center, noise=noised_replies(study, agreed, budget)))
    if faults:
        raise BudgetError("The centers' privacy budgets do not cover this study.", faults)
    return InProcess(centers)


def noised_replies(
    study: Study, agreed: Spending, budget: Budget, memory: StudyMemory | None = None
) -> NoisedReplies:
    """How one hospital answers the study under noise: no more than was agreed on."""
    return NoisedReplies(
        study_digest(study),
        agreed.delta,
        budget,
        memory=memory,
        name=study.name,
        most=agreed.epsilon,
        sums=agreed.sums,
        parts=agreed.parts,
    )


def study_digest(study: Study) -> str:
    """The study file alone, whoever takes part: what a hospital remembers it by."""
    return sha256(study.to_toml().encode()).hexdigest()


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
    return solver.rounds + 1 if isinstance(solver, FedavgSolver) else 0


def policies_by_center(
    given: Mapping[str | None, Policy], centers: Collection[str]
) -> dict[str, Policy]:
    """The policy of every center that has one; None in `given` stands for all other centers."""
    strangers = sorted(name for name in given if name is not None and name not in centers)
    if strangers:
        raise InputError(
            "A policy is given for a center that is not there.",
            [f"{name!r} is not among {', '.join(sorted(centers))}." for name in strangers],
        )
    policies = {name: given.get(name, given.get(None)) for name in centers}
    return {name: policy for name, policy in policies.items() if policy is not None}
