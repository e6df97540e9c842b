"""Which limits of a policy does a reply break? One sentence each: the rule, found, needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcox.privacy import foreseen
from fedcox.privacy.exposure import Known, Request
from fedcox.survival.cohort import FloatArray

if TYPE_CHECKING:
    from fedcox.privacy.policy import Policy

_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Past:
    """What a study was answered so far."""

    rounds: int = 0  # questions with parameters
    blocks: int = 0  # replies by interval and covariate
    alpha: FloatArray | None = None  # where it was asked last
    beta: FloatArray | None = None
    edges: FloatArray | None = None  # the first grid


def broken(policy: Policy, request: Request, known: Known, past: Past) -> Iterator[str]:
    """Every broken limit."""
    yield from foreseen.refused_questions(policy, [request.query])
    yield from _who_sees(policy, request)
    yield from _rounds(policy, request, past)
    if covered_by_noise(policy, request):
        return
    yield from _size(policy, request)
    too_fine = [
        *_batch(policy, request),
        *_groups(policy, request, known, past),
        *_levels(policy, request, known),
        *_blocks(policy, request, past),
        *_model(policy, request, known),
        *_alpha(policy, request, past),
        *_beta(policy, request, known, past),
        *_share(policy, known),
    ]
    yield from too_fine
    if too_fine and request.private:
        yield (
            "[differential_privacy] epsilon: not set, so that any noise would do; a reply with "
            "noise is free of the limits above only where the hospital has set it."
        )


def covered_by_noise(policy: Policy, request: Request) -> bool:
    """Whether limits on groups and parameters are needless.

    Noise covers each patient, however few a reply describes and wherever it is asked: if there
    is enough of it, which the hospital must have said.
    """
    return request.private and policy.differential_privacy.epsilon is not None


def _who_sees(policy: Policy, request: Request) -> Iterator[str]:
    if not request.masked:
        yield from foreseen.seen_alone(policy)
    if policy.differential_privacy.required and not request.private:
        yield "[differential_privacy] required: the reply would leave without noise."
    if request.exposure.patient_level:
        yield from foreseen.single_patients(policy, request.query, masked=request.masked)


def _size(policy: Policy, request: Request) -> Iterator[str]:
    if not request.exposure.batch:
        yield from foreseen.too_few(policy, request.exposure.patients, request.exposure.events)


def _batch(policy: Policy, request: Request) -> Iterator[str]:
    exposure = request.exposure
    # A batch without any of the center's patients describes none of them.
    if exposure.batch and 0 < exposure.patients < policy.groups.batch:
        yield (
            f"[groups] batch: found {exposure.patients} patients of this hospital in a batch; "
            f"at least {policy.groups.batch} are needed. Use larger batches, or none."
        )


def _groups(policy: Policy, request: Request, known: Known, past: Past) -> Iterator[str]:
    fewest = policy.groups.interval
    group, part = _group(request), _part(request)
    if group is not None and group < fewest:
        yield (
            f"[groups] interval: the smallest has {_people(group, request)}; at least {fewest} "
            "are needed. Use wider intervals, a nearer horizon, or a larger smallest_group."
        )
    elif part is not None and part < fewest:
        yield (
            f"[groups] interval: of those who leave in an interval {_people(part, request)} do "
            f"so with the event, or without; at least {fewest} are needed, or none. Set "
            f"smallest_group = {2 * fewest} in the study's [privacy], or use wider intervals."
        )
    if policy.groups.one_grid and known.edges is not None and past.edges is not None:
        moved = int(np.count_nonzero(~np.isin(known.edges, past.edges)))
        if moved:
            yield (
                f"[groups] one_grid: {moved} intervals end elsewhere than those of the study's "
                "first grid. Differences between grids may be single patients."
            )


def _group(request: Request) -> int | None:
    """The fewest patients that a part of the reply describes; None if it has no such parts.

    The groups agreed for the study are not those of a batch, where only the center's own are
    known. A life table under masks is what groups are agreed by.
    """
    exposure = request.exposure
    if _no_groups(request):
        return None
    if request.masked and not exposure.batch and exposure.pooled_group is not None:
        return exposure.pooled_group
    return exposure.smallest_group


def _part(request: Request) -> int | None:
    """The fewest patients of a group who leave with the event, or without."""
    exposure = request.exposure
    if _no_groups(request):
        return None
    if request.masked and not exposure.batch and exposure.pooled_part is not None:
        return exposure.pooled_part
    return exposure.smallest_part


def _no_groups(request: Request) -> bool:
    exposure = request.exposure
    return not exposure.patients or (request.masked and exposure.counts)


def _people(group: int, request: Request) -> str:
    if request.masked and group == 0:
        return "more patients here than are claimed for all centers"
    return f"{group} patient" if group == 1 else f"{group} patients"


def _levels(policy: Policy, request: Request, known: Known) -> Iterator[str]:
    if known.level is not None and known.level < policy.groups.level:
        yield (
            f"[groups] level: the rarest level of a covariate has "
            f"{_people(known.level, request)}; at least {policy.groups.level} are needed. Join "
            "levels, or leave the covariate out."
        )


def _blocks(policy: Policy, request: Request, past: Past) -> Iterator[str]:
    if not request.exposure.time_by_covariate:
        return
    limits = policy.blocks
    if limits.only_masked and not request.masked:
        yield (
            "[blocks] only_masked: a time × covariate block is given under secure sums alone."
        )
    group = _group(request)
    if group is not None and group < limits.group:
        yield (
            f"[blocks] group: the smallest interval has {_people(group, request)}; at least "
            f"{limits.group} are needed for a time × covariate block. Use wider intervals or a "
            "nearer horizon."
        )
    if past.blocks >= limits.times:
        yield (
            f"[blocks] times: {past.blocks} time × covariate blocks were given; at most "
            f'{limits.times:g} are allowed in a study. Use method = "lbfgs", which needs one.'
        )


def _model(policy: Policy, request: Request, known: Known) -> Iterator[str]:
    """Parameters for each patient.

    As in DataSHIELD, for each of the center's own where its reply is seen. Of a sum over
    centers, for each of the study's: as many as are told, or else are known to be there.
    """
    exposure = request.exposure
    patients = exposure.patients
    if request.masked:
        intervals = 0 if request.alpha is None else request.alpha.size
        in_groups = (exposure.pooled_group or 0) * intervals
        patients = max(patients, in_groups, known.patients or 0)
    if patients:
        yield from foreseen.too_many_parameters(policy, exposure.parameters, patients)


def _alpha(policy: Policy, request: Request, past: Past) -> Iterator[str]:
    alpha, limits = request.alpha, policy.parameters
    if alpha is None or not alpha.size:
        return
    size = float(np.abs(alpha).max())
    if _exceeds(size, limits.alpha):
        yield (
            f"[parameters] alpha: the largest is {size:.3g} in size; at most {limits.alpha:g} "
            "is allowed."
        )
    if past.alpha is not None and limits.alpha_step < math.inf:
        yield from _moved("alpha", alpha, past.alpha, limits.alpha_step)


def _beta(policy: Policy, request: Request, known: Known, past: Past) -> Iterator[str]:
    beta, limits = request.beta, policy.parameters
    if beta is None or not beta.size:
        return
    if known.spread is not None and _exceeds(known.spread, 1.0 + _ROUNDING):
        yield (
            "[parameters] beta: the patients here vary more than the study's scale says all "
            "do, so it is not theirs, and coefficients on it are longer than they look."
        )
    length = _length(beta)
    if _exceeds(length, limits.beta):
        yield (
            f"[parameters] beta: the coefficients have length {length:.3g}; at most "
            f"{limits.beta:g} is allowed. A ridge in the study's [model] keeps them short."
        )
    if limits.beta_step < math.inf:
        start = np.zeros_like(beta) if past.beta is None else past.beta
        yield from _moved("beta", beta, start, limits.beta_step)


def _share(policy: Policy, known: Known) -> Iterator[str]:
    """How large the share is stays in the hospital: it is a function of one patient."""
    most = policy.parameters.share
    if known.share is not None and _exceeds(known.share, most):
        yield (
            f"[parameters] share: one patient would be more than {most:g} of a sum. Covariates "
            "with rare, far-off values are better capped, or put on a log scale."
        )


def _moved(key: str, here: FloatArray, before: FloatArray, most: float) -> Iterator[str]:
    if here.shape != before.shape:  # begun again, as without a center that was lost
        if key == "alpha":
            return
        before = np.zeros_like(here)
    with np.errstate(invalid="ignore", over="ignore"):
        step = here - before
    size = float(np.abs(step).max()) if key == "alpha" else _length(step)
    if _exceeds(size, most):
        yield (
            f"[parameters] {key}_step: moved by {size:.3g} since the last question; at most "
            f"{most:g} is allowed."
        )


def _length(vector: FloatArray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.linalg.norm(vector))


def _exceeds(size: float, most: float) -> bool:
    """Whether a limit is broken; what is not a number breaks every limit there is."""
    return most < math.inf and not size <= most


def _rounds(policy: Policy, request: Request, past: Past) -> Iterator[str]:
    most = policy.parameters.rounds
    if asks_at_parameters(request) and past.rounds >= most:
        yield (
            f"[parameters] rounds: {past.rounds} questions were answered; at most {most:g} are "
            "allowed in a study."
        )


def asks_at_parameters(request: Request) -> bool:
    """Whether the reply depends on parameters that the coordinator chose."""
    return request.alpha is not None or request.beta is not None
