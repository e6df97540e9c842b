"""What of a study does a policy refuse? As far as its plan and a cohort's size tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fedcox.privacy.policy_faults import listed

if TYPE_CHECKING:
    from fedcox.privacy.policy import Policy

_GRID = " Name a width and a horizon in the study's [grid]."
#: How a study does without what single patients would give it.
_INSTEAD = {
    "longest follow-up": _GRID,
    "last interval": _GRID,
    "distinct event times": _GRID,
    "tile moments": " Of fewer tiles than features, moments give single tiles away: bring more "
    "slides, or none.",
}


def refused_columns(policy: Policy, columns: Iterable[str]) -> Iterator[str]:
    """Columns that a study uses and the hospital does not give."""
    allowed = policy.cohort.columns
    refused = [] if allowed == "all" else [name for name in columns if name not in allowed]
    if refused:
        names = listed([f"'{name}'" for name in refused])
        yield f"[cohort] columns: {names} may not be used; leave out of the study."


def refused_questions(policy: Policy, questions: Iterable[str]) -> Iterator[str]:
    """Questions that the hospital does not answer."""
    allowed = policy.questions.allowed
    refused = [] if allowed == "all" else [name for name in questions if name not in allowed]
    if refused:
        names = listed([f"'{name}'" for name in refused])
        yield f"[questions] allowed: {names} may not be asked here."


def single_patients(policy: Policy, question: str, *, masked: bool) -> Iterator[str]:
    """A question whose reply is single patients' values, not a sum."""
    given = policy.questions.patient_level
    open_to = {"never": False, "masked": masked, "always": True}
    if not open_to[given]:
        but = " but under secure sums" if given == "masked" else ""
        instead = _INSTEAD.get(question, "")
        yield f"[questions] patient_level: single patients' values are not given{but}.{instead}"


def too_few(policy: Policy, patients: int | None, events: int | None) -> Iterator[str]:
    """A hospital whose patients in the study are too few to take part."""
    limits = policy.cohort
    if patients is not None and patients < limits.patients:
        yield f"[cohort] patients: found {patients}; at least {limits.patients} are needed."
    if events is not None and events < limits.events:
        yield f"[cohort] events: found {events}; at least {limits.events} are needed."


def too_many_parameters(policy: Policy, parameters: int, patients: int) -> Iterator[str]:
    """A model that has too many parameters for the patients behind a reply."""
    most = policy.cohort.parameters_per_patient
    if parameters > most * patients:
        yield (
            f"[cohort] parameters_per_patient: found {parameters} parameters for {patients} "
            f"patients; at most {most:g} for each are allowed. Use fewer intervals or columns."
        )


def seen_alone(policy: Policy) -> Iterator[str]:
    """A reply that would be seen although it is this hospital's alone."""
    if policy.protection.secure_sums == "required":
        yield (
            "[protection] secure_sums: this hospital's own replies would be seen; only sums "
            f"over at least {policy.protection.centers} centers may be. Set secure_sums = true "
            "in the study's [privacy]."
        )


def too_many_rounds(policy: Policy, rounds: int) -> Iterator[str]:
    """A solver that asks at more parameters than are answered."""
    most = policy.parameters.rounds
    if rounds > most:
        yield (
            f"[parameters] rounds: the study's solver asks {rounds} times; at most {most:g} "
            'are answered. Use fewer steps, or method = "newton" or "lbfgs".'
        )


def too_few_centers(policy: Policy, centers: int) -> Iterator[str]:
    """A secure sum over so few centers that one may work out another's reply."""
    if centers < policy.protection.centers:
        yield (
            f"[protection] centers: found {centers} in a secure sum; at least "
            f"{policy.protection.centers} are needed."
        )


def blocks_out_of_reach(
    policy: Policy, *, masked: bool, smallest_group: int | None
) -> Iterator[str]:
    """Standard errors need one time × covariate block, whatever the solver."""
    limits = policy.blocks
    if not masked and limits.only_masked:
        yield (
            "[blocks] only_masked: standard errors need one time × covariate block, which is "
            "given under secure sums alone."
        )
    if limits.times < 1:
        yield "[blocks] times: standard errors need one time × covariate block; none is given."
    # Where replies are seen alone the study's groups are not the hospital's.
    if masked and smallest_group is not None and smallest_group < limits.group:
        yield (
            f"[blocks] group: the study joins intervals up to {smallest_group} patients; at "
            f"least {limits.group} are needed. Set smallest_group in the study's [privacy]."
        )


def small_parts(policy: Policy, *, masked: bool, group: int | None) -> Iterator[str]:
    """Joined intervals that fewer may leave with the event, or without, than are needed."""
    needed = policy.groups.interval
    if masked and group is not None and -(-group // 2) < needed:
        yield (
            f"[groups] interval: the study joins intervals until {group} patients leave, of "
            f"whom {-(-group // 2)} may do so with the event; at least {needed} are needed. "
            f"Set smallest_group = {2 * needed} in the study's [privacy]."
        )


def too_little_noise(
    policy: Policy, epsilon: float | None, delta: float | None
) -> Iterator[str]:
    """A study without noise where it is required, or with too little of it."""
    limits = policy.differential_privacy
    if epsilon == math.inf:
        if limits.required:
            yield (
                "[differential_privacy] required: this study adds no noise. Set epsilon and "
                "delta in the study's [privacy.noise]."
            )
        return
    for key, asked in (("epsilon", epsilon), ("delta", delta)):
        most = getattr(limits, key)
        if asked is not None and most is not None and asked > most:
            yield (
                f"[differential_privacy] {key}: the study asks for {asked:g}; all studies "
                f"together may spend {most:g}."
            )
