"""Would the hospitals' own policies and budgets let this study run? Told before it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedcox.analysis.agreement import agree
from fedcox.analysis.asked import asked_by
from fedcox.analysis.noised_fit import spending
from fedcox.analysis.plan import Plan
from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import (
    AdamSolver,
    FedavgSolver,
    LbfgsSolver,
    NewtonSolver,
    Noise,
)
from fedcox.engines.in_process import InProcess
from fedcox.errors import BudgetError, InputError, RefusedError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.privacy.budget import Budget
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort

#: The fewest centers of a secure sum.
_FEWEST_MASKED = 3
#: Questions of the agreement on a grid whose replies are times of single patients.
_PATIENT_LEVEL = ("longest follow-up", "last interval", "distinct event times")


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
        limits = None if center.gate is None else center.gate.policy.differential_privacy
        budget = Budget(
            Path(folder) / f"{center.name}.jsonl",
            epsilon=None if limits is None else limits.epsilon,
            delta=None if limits is None else limits.delta,
        )
        try:
            # All are looked at before the first pays: a refused study must cost nobody.
            budget.check(epsilon=agreed.epsilon, delta=agreed.delta)
        except BudgetError as error:
            faults.append(f"{center.name}: {error.subject} {error.faults[0]}")
        noise = NoisedReplies(
            sha256(study.to_toml().encode()).hexdigest(),
            agreed.delta,
            budget,
            name=study.name,
            most=agreed.epsilon,
            sums=agreed.sums,
        )
        centers.append(replace(center, noise=noise))
    if faults:
        raise BudgetError("The centers' privacy budgets do not cover this study.", faults)
    return InProcess(centers)


def policy_faults(
    study: Study, policy: Policy, cohort: Cohort, *, centers: int | None = None
) -> list[str]:
    """What one hospital's policy refuses of a study, as far as its own file tells."""
    private = study.privacy.noised
    epsilon, delta = _spending(study, centers) if private else (math.inf, None)
    return policy.faults(
        columns=[covariate.name for covariate in study.covariates],
        questions=_questions(study),
        patient_level=[name for name in asked_by(study) if name in _PATIENT_LEVEL],
        rounds=_rounds(study),
        patients=cohort.patients,
        events=int(np.count_nonzero(cohort.event)),
        design=0 if private else len(study.schema.encoded_names),
        parameters=_parameters(study, cohort),
        centers=centers,
        secure_sums=bool(study.privacy.secure_sums),
        smallest_group=study.privacy.group,
        epsilon=epsilon,
        delta=delta,
    )


def _spending(study: Study, centers: int | None) -> tuple[float, float]:
    """Where each center adds all of the noise, a price costs more with every one of them."""
    noise = study.privacy.noise
    unknown = centers is None and not study.privacy.secure_sums
    if isinstance(noise, Noise) and noise.epsilon is None and unknown:
        return 0.0, noise.delta
    agreed = spending(study, centers or _FEWEST_MASKED)
    return agreed.epsilon, agreed.delta


def _parameters(study: Study, cohort: Cohort) -> int:
    """Of the model on this file alone; with other centers' patients it has no fewer.

    Pieces are cut as between hospitals. Zero where nobody can know it yet, since replies are
    seen in sums alone.
    """
    privacy = study.privacy
    if privacy.secure_sums or privacy.noised:
        return 0
    plan = replace(Plan.of(study), few_pieces=True)
    try:
        alone = agree(plan, InProcess([Center("alone", cohort)]))
    except InputError:  # nothing to fit, as without an event
        return 0
    return alone.setting.intervals + alone.setting.columns


def _questions(study: Study) -> list[str]:
    """What the study's solver is sure to ask, by the names that policies use."""
    solver = study.solver
    if isinstance(study.privacy.noise, Noise):
        return list(asked_by(study))
    asked = ["covariate sums", "covariate scatter", "interval counts", "information"]
    if isinstance(solver, NewtonSolver):
        return [*asked, "hessian"]
    if isinstance(solver, LbfgsSolver):
        return [*asked, solver.scaling, "gradient"]
    if isinstance(solver, FedavgSolver):
        return [*asked, "local steps"]
    compressed = "" if solver.compression == "none" else "compressed "
    batch = "" if solver.batch_size is None else " of a batch"
    return [*asked, f"{compressed}gradient{batch}"]


def _rounds(study: Study) -> int:
    """How often it asks at parameters, where that is fixed beforehand."""
    solver = study.solver
    if isinstance(solver, AdamSolver):
        return solver.steps + 1
    return solver.rounds + 1 if isinstance(solver, FedavgSolver) else 0
