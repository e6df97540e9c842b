"""What the reader must know about a fit, in sentences, each under the name of its warning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcox.analysis.agreement import Agreement
from fedcox.analysis.fitted import Notice
from fedcox.analysis.plan import Plan
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.solver import Solution

_NAMES_SHOWN = 12


def notices(plan: Plan, agreement: Agreement, solution: Solution) -> tuple[Notice, ...]:
    """Every warning of a fit, in the order in which they matter."""
    return (
        *_approximate(plan),
        *_not_converged(plan, solution),
        *_separation(plan, agreement, solution),
        *_columns(plan, agreement),
        *_intervals(agreement),
    )


def _approximate(plan: Plan) -> list[Notice]:
    if not isinstance(plan.solver, FederatedAveraging):
        return []
    return [
        Notice(
            "ApproximateSolverWarning",
            "Federated averaging takes the mean of where every center's own steps lead. That "
            "is near the optimum over all patients where centers are alike. Where they are "
            "not, it is off by more than the standard errors show. For the pooled result use "
            'method = "newton" or "lbfgs".',
        )
    ]


def _not_converged(plan: Plan, solution: Solution) -> list[Notice]:
    # More rounds of federated averaging lead nowhere else: its own notice says what does.
    if solution.converged or isinstance(plan.solver, FederatedAveraging):
        return []
    return [
        Notice(
            "NotConvergedWarning",
            f"The solver stopped after {len(solution.steps)} steps before it reached the "
            "optimum. Coefficients and standard errors are those of the last step. Allow more "
            'rounds, or use method = "newton".',
        )
    ]


def _separation(plan: Plan, agreement: Agreement, solution: Solution) -> list[Notice]:
    if not solution.separated.any():
        return []
    columns = agreement.setting.scaling.keep[solution.separated]
    return [
        Notice(
            "SeparationWarning",
            f"The likelihood keeps rising as the coefficient of {_list(plan, columns)} grows: "
            "some group has no event, or only events. Its value and standard error are where "
            "the search stopped and mean nothing. Leave the column out, join categories, or "
            "set a ridge.",
        )
    ]


def _columns(plan: Plan, agreement: Agreement) -> list[Notice]:
    told = []
    constant = np.flatnonzero(agreement.constant)
    if constant.size:
        told.append(
            Notice(
                "ConstantColumnsWarning",
                f"{_list(plan, constant)}: the same value for every patient of every center. "
                "Reported without a coefficient.",
            )
        )
    aliased = np.flatnonzero(agreement.aliased)
    if aliased.size:
        told.append(
            Notice(
                "AliasedColumnsWarning",
                f"{_list(plan, aliased)}: determined by the columns before, over all centers. "
                "Reported without a coefficient; the other coefficients are those of a fit "
                "without these columns.",
            )
        )
    return told


def _intervals(agreement: Agreement) -> list[Notice]:
    counts, edges = agreement.counts, agreement.setting.grid.edges
    empty = counts.events == 0
    only = (counts.events > 0) & ~agreement.setting.active
    told = []
    if empty.any():
        told.append(
            Notice(
                "EmptyIntervalsWarning",
                f"In {int(empty.sum())} of {edges.size} intervals no center has an event. The "
                "hazard there is zero; they say nothing about the coefficients.",
            )
        )
    if only.any():
        told.append(
            Notice(
                "EventsOnlyIntervalsWarning",
                f"In {int(only.sum())} of {edges.size} intervals everyone at risk has the "
                "event. The hazard there is one; they say nothing about the coefficients.",
            )
        )
    return told


def _list(plan: Plan, columns: Sequence[int] | np.ndarray) -> str:
    names = [plan.columns[int(column)] for column in columns]
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
