"""What studies have taken from a hospital's patients, and what its policy still allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedcox.errors import BudgetError
from fedcox.files.followed import FollowedFile
from fedcox.privacy.budget import Budget

if TYPE_CHECKING:
    from pathlib import Path

    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.federation.policy import Policy
    from fedcox.study.noised_fit import Spending


def budget_of(account: Path, policy: Policy | None) -> Budget:
    """The hospital's one account over all studies, as its policy limits it."""
    return Budget(
        account,
        epsilon=None if policy is None else policy.epsilon,
        delta=None if policy is None else policy.delta,
    )


def shortfall(budget: Budget, study: Spending) -> tuple[str, ...]:
    """What a study needs and what is left, where that is less: numbers of studies alone."""
    try:
        spent = budget.spent
    except BudgetError:  # a damaged file: nobody knows what is left
        return ()
    return tuple(
        f"{name}: {needed:.4g} needed, {max(0.0, allowed - before):.4g} left"
        for name, needed, before, allowed in (
            ("epsilon", study.epsilon, spent.epsilon, budget.epsilon),
            ("delta", study.delta, spent.delta, budget.delta),
        )
        if allowed is not None and before + needed > allowed
    )


def account_lines(folder: CenterFolder, budget: Budget) -> Iterator[str]:
    """Every study that was answered about these patients, and what all of them spent."""
    try:
        payments = budget.spent.payments
    except BudgetError as error:
        yield f"{error.subject} {' '.join(error.faults)}"
        return
    epsilon = sum(payment.epsilon for payment in payments)
    delta = sum(payment.delta for payment in payments)
    allowed = "" if budget.epsilon is None else f" of {budget.epsilon:g} allowed"
    yield f"Spent before on these patients: epsilon {epsilon:.4g}{allowed}, delta {delta:.3g}."
    exact = list(_exact_studies(folder))
    if not payments and not exact:
        yield "Earlier studies on these patients: none."
        return
    yield "Earlier studies on these patients:"
    for payment in payments:
        yield (
            f"  {payment.day} “{payment.name}”: noise, epsilon {payment.epsilon:.4g}, "
            f"delta {payment.delta:g}"
        )
    for name, day in exact:
        yield f"  {day} “{name}”: exact sums"


def _exact_studies(folder: CenterFolder) -> Iterator[tuple[str, str]]:
    """Names of studies that were answered without noise, with the first day of each.

    Studies of the same name are told apart by their codes.
    """
    seen: set[tuple[str, str]] = set()
    for row in FollowedFile(folder.ledger, from_start=True).rows():
        known = row["study"], row.get("code", "")
        if "noise" not in row["protection"] and known not in seen:
            seen.add(known)
            yield row["study"], row["time"][:10]
