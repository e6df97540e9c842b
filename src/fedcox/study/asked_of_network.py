"""What will the training of a network ask of a hospital? Every question by its name, in words.

By these names a hospital's policy allows them. The list is complete: questions that are asked
only sometimes are on it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.federated_averaging import NetworkAveraging
from fedcox.study.asked import question_words
from fedcox.study.network_plan import NetworkPlan


def asked_by_training(plan: NetworkPlan, *, secure_sums: bool = False) -> dict[str, str]:
    """Every question that this training may ask, in about the order in which it does."""
    names = _under_noise(plan) if plan.private else _openly(plan, secure_sums)
    return {name: question_words(name) for name in names}


def _under_noise(plan: NetworkPlan) -> Iterator[str]:
    sampled = plan.private is not None and plan.private.sampling_rate < 1
    yield f"clipped network gradient{' of a sample' if sampled else ''}"


def _openly(plan: NetworkPlan, secure_sums: bool) -> Iterator[str]:
    yield "covariate sums"
    if plan.horizon is None:
        yield "last interval" if secure_sums else "longest follow-up"
    if not plan.grouped:
        yield "fractional times"
    yield from ("interval counts", "covariate scatter")
    yield from _solver(plan)
    yield "baseline diagonal"
    if plan.weighs_events:
        yield from ("baseline hessian", "baseline gradient", "baseline information")


def _solver(plan: NetworkPlan) -> Iterator[str]:
    solver = plan.solver
    if isinstance(solver, NetworkAveraging):
        yield "network steps"
    elif isinstance(solver, NetworkAdam) and solver.batching == "rows":
        yield "network gradient of a batch of cells"
    elif isinstance(solver, NetworkAdam):
        # A batch of everybody is asked without one.
        yield from ("network gradient", "network gradient of a batch")
    if isinstance(solver, NetworkAdam | NetworkAveraging) and solver.validation > 0:
        yield "network loss of held-out patients"
