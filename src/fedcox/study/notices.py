"""What the reader must know about a fit, in sentences, each under the name of its warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

import fedcox.errors as errors
from fedcox.data.schema import CohortSchema
from fedcox.data.wording import counted, listed
from fedcox.federation.query import Federation
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.solver import Solution
from fedcox.study.agreement import Agreement
from fedcox.study.cells import MANY_OF_THEM
from fedcox.study.fit_rows import Notice
from fedcox.study.plan import Plan
from fedcox.study.study import Study
from fedcox.survival.time_grid import Pieces, TimeGrid

_NAMES_SHOWN = 12
#: Grouped time is near Cox's model up to this share of the events in one interval, and up to
#: this hazard of an interval.
_MOST_EVENTS, _MOST_HAZARD = 0.15, 0.2
#: A piece with more of the events than this is most of the study.
_MOST_OF_THEM = 0.5
#: Of so many events some time units are empty by chance, but not so many.
_ENOUGH_EVENTS, _FEW_OCCUPIED = 30, 0.7
_INSIDE_IS_LOST = (
    "Grouped time puts all that happens inside an interval at its end: ratios and curves can "
    "be far from those of a Cox model."
)
#: In standard errors: beyond this the curvature says no more than that it is far.
_BEYOND_TELLING = 100.0
_NO_INFERENCE = (
    "Standard errors, intervals and p-values are computed where it ended, as if that were the "
    "optimum: do not use them as a test. There is no likelihood-ratio test."
)


def notices(plan: Plan, agreement: Agreement, solution: Solution) -> tuple[Notice, ...]:
    """Every warning of a fit, in the order in which they matter."""
    return (
        *_approximate(plan, solution),
        *_not_converged(plan, solution),
        *_separation(plan, agreement, solution),
        *_ridge(plan),
        *_columns(plan, agreement),
        *_time(plan, agreement, solution),
    )


def exact_sums(study: Study, federation: Federation) -> list[Notice]:
    """Of a fit between hospitals, or a rehearsal of one, whose study wants no noise."""
    if study.privacy.noise != "none" or federation.in_one_process:
        return []
    return [
        Notice(
            "ExactSumsWarning",
            "Sums leave hospitals without noise. Whoever sees the totals may be able to "
            "compute patients from them, however many patients a sum is over. Every hospital's "
            "own policy must say exact_sums = true; a [privacy.noise] in the study needs no "
            "such word.",
        )
    ]


def lost_centers(names: Sequence[str], *, done_again: bool = True) -> list[Notice]:
    """Centers whose patients are not in the result, or in the first rounds of it alone."""
    if not names:
        return []
    result = (
        "The study was done again without, and every number is about the patients of the other "
        "centers."
        if done_again
        else "The rounds before were with their patients, those after without: what was spent "
        "of epsilon is not got back by starting again."
    )
    return [Notice("LostCentersWarning", f"{', '.join(names)} stopped answering. {result}")]


def filled_cells(schema: CohortSchema, agreement: Agreement) -> list[Notice]:
    """Cells that the mean stands for, over all centers, by column of the files."""
    counts = {
        name: round(float(agreement.filled[place]))
        for name, place in schema.first_encoded.items()
    }
    columns = [
        f"{counted(count, 'cell')} of column '{name}'"
        for name, count in counts.items()
        if count
    ]
    if not columns:
        return []
    more = len(columns) - _NAMES_SHOWN
    shown = [*columns[:_NAMES_SHOWN], *([f"cells of {more} more columns"] if more > 0 else [])]
    return [
        Notice(
            "FilledCellsWarning",
            f"Filled with the mean over all centers, for want of a value: {listed(shown)}. "
            "Standard errors take these cells for measured.",
        )
    ]


def large_delta(delta: float, patients: int) -> list[Notice]:
    """Whether giving away one patient at random would keep the promise."""
    if delta < 1.0 / patients:
        return []
    return [
        Notice(
            "LargeDeltaWarning",
            f"A delta of {delta:g} with {patients} patients promises little: to publish one of "
            "them, drawn at random, would keep it. Give a delta far below one over the number "
            "of patients.",
        )
    ]


def absent_centers(names: Sequence[str]) -> list[Notice]:
    """Centers of the study that no question reached."""
    if not names:
        return []
    told = (
        f"{', '.join(names)} took no part. Every number is about the other centers' patients."
    )
    return [Notice("LostCentersWarning", told)]


def _approximate(plan: Plan, solution: Solution) -> list[Notice]:
    if solution.converged or not _averages(plan):
        return []
    return [
        Notice(
            "ApproximateSolverWarning",
            "Federated averaging takes the mean of where every center's own steps lead, which "
            "is the optimum over all patients only where centers are alike. It ended off that "
            f"optimum.{_distance(solution)} {_NO_INFERENCE} More rounds lead nowhere else: for "
            'the pooled result use method = "newton" or "lbfgs".',
        )
    ]


def _not_converged(plan: Plan, solution: Solution) -> list[Notice]:
    if solution.converged or _averages(plan):
        return []
    return [
        Notice(
            "NotConvergedWarning",
            f"The solver stopped after {counted(len(solution.steps), 'step')} before it "
            f"reached the optimum.{_distance(solution)} {_NO_INFERENCE} Allow more rounds, or "
            'use method = "newton".',
        )
    ]


def _averages(plan: Plan) -> bool:
    """Whether the solver's own end is another place than the pooled optimum."""
    solver = plan.solver
    return isinstance(solver, FederatedAveraging) and not solver.pooled_in_the_end


def _distance(solution: Solution) -> str:
    """The decrement in words: its root bounds how far anything is off, in standard errors."""
    if solution.decrement is None:
        return ""
    off = float(np.sqrt(max(0.0, solution.decrement)))
    if off > _BEYOND_TELLING:
        return " It is too far off to say how far."
    if off < 1.0:
        up_to = f"{max(off, 0.01):.2f} of a standard error"
    else:
        up_to = f"{off:.1f} standard errors"
    return (
        " By the curvature there, coefficients and baseline hazards are off by up to about "
        f"{up_to}."
    )


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


def _ridge(plan: Plan) -> list[Notice]:
    if not plan.ridge:
        return []
    return [
        Notice(
            "RidgeWarning",
            f"A ridge of {plan.ridge:g} pulls every coefficient towards zero. Standard errors, "
            "z, p and intervals are not what they are without it: they count the penalty as if "
            "patients had told it, and leave out how far it moved the coefficients. Do not use "
            "them as a test; fit without a ridge for that.",
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


def _time(plan: Plan, agreement: Agreement, solution: Solution) -> Iterator[Notice]:
    """What the division of time does to the answer."""
    if plan.link.grouped:
        yield from _silent_intervals(agreement)
        yield from _coarse(plan, agreement, solution)
    elif agreement.empty:
        yield Notice(
            "JoinedIntervalsWarning",
            f"{agreement.empty} of {agreement.cells} pieces had no event. Between others they "
            "were joined with the next; before the first event and after the last the hazard "
            "is zero.",
        )
    yield from _tied(agreement)
    yield from _crowded(plan, agreement)
    yield from _one_piece(agreement)
    yield from _late(agreement)


def _one_piece(agreement: Agreement) -> Iterator[Notice]:
    """Pieces so long that a constant hazard is a strong word."""
    grid, events = agreement.setting.grid, agreement.events
    share = float(events.max() / events.sum())
    if isinstance(grid, Pieces) and agreement.named and share > _MOST_OF_THEM:
        yield Notice(
            "CoarseTimeWarning",
            f"One piece holds {100 * share:.0f} % of the events, and its hazard is taken as "
            "constant; where it is not, ratios and curves are not those of a Cox model. Name "
            "more pieces where the events are, or leave them out: then they are cut there.",
        )


def _tied(agreement: Agreement) -> Iterator[Notice]:
    """Event times so coarse that every way of treating ties is a guess."""
    share = agreement.tied
    if share > _MOST_EVENTS:
        yield Notice(
            "CoarseTimeWarning",
            f"{100 * share:.0f} % of the events fall on times at which more than "
            f"{100 * MANY_OF_THEM:.0f} % of those at risk have the event. With so many at the "
            "same time the ratios depend on how ties are treated. Record times more finely, or "
            'take link = "cloglog", which is made for times known by interval alone.',
        )


def _crowded(plan: Plan, agreement: Agreement) -> Iterator[Notice]:
    """Events on few times, as if these were recorded in longer units than is taken."""
    counts, grid = agreement.counts, agreement.grid
    if plan.resolution is not None or not isinstance(grid, Pieces):
        return
    if counts.events.sum() < _ENOUGH_EVENTS:
        return
    if agreement.occupied < _FEW_OCCUPIED:
        taken = "exact" if grid.unit is None else f"recorded in units of {grid.unit:g}"
        yield Notice(
            "CoarseTimeWarning",
            f"Times are taken as {taken}, but events stand on few of them: "
            f"{100 * agreement.occupied:.0f} % of those to be expected. Where they are "
            "recorded in longer units, ratios and curves are not those of a Cox model: name "
            "[outcome] resolution.",
        )


def _silent_intervals(agreement: Agreement) -> Iterator[Notice]:
    counts, edges = agreement.counts, agreement.setting.grid.edges
    empty = counts.events == 0
    only = (counts.events > 0) & ~agreement.setting.active
    if empty.any():
        yield Notice(
            "EmptyIntervalsWarning",
            f"In {int(empty.sum())} of {edges.size} intervals no center has an event. The "
            "hazard there is zero; they say nothing about the coefficients.",
        )
    if only.any():
        yield Notice(
            "EventsOnlyIntervalsWarning",
            f"In {int(only.sum())} of {edges.size} intervals everyone at risk has the "
            "event. The hazard there is one; they say nothing about the coefficients.",
        )


def _coarse(plan: Plan, agreement: Agreement, solution: Solution) -> Iterator[Notice]:
    """Intervals so wide that what happens inside them matters."""
    events = agreement.counts.events
    largest = float(events.max() / events.sum())
    hazard = float(plan.link.hazard(solution.alpha).max(initial=0.0))
    grid = agreement.setting.grid
    if not isinstance(grid, TimeGrid) or grid.width is None:  # nothing lies inside
        return
    if largest > _MOST_EVENTS or hazard > _MOST_HAZARD:
        yield Notice(
            "CoarseTimeWarning",
            f"One interval holds {100 * largest:.0f} % of the events, and the largest hazard "
            f"of an interval is {hazard:.2f}; up to {100 * _MOST_EVENTS:.0f} % and "
            f"{_MOST_HAZARD:g} grouped time is near a Cox model. {_INSIDE_IS_LOST} Take "
            'narrower intervals, in the unit of time, or link = "log".',
        )


def _late(agreement: Agreement) -> Iterator[Notice]:
    counts, horizon = agreement.counts, agreement.setting.grid.horizon
    if counts.late_events:
        yield Notice(
            "LateEventsWarning",
            f"{counted(counts.late_events, 'event')} after the horizon of {horizon:g} "
            f"{'does' if counts.late_events == 1 else 'do'} not count: "
            f"{counted(counts.passed, 'patient')} followed beyond it stand as without event "
            "there.",
        )


def _list(plan: Plan, columns: Sequence[int] | np.ndarray) -> str:
    names = [plan.columns[int(column)] for column in columns]
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def warn_of(notices: Iterable[Notice]) -> None:
    """Give each as a Python warning of its name, where the caller's caller called."""
    for notice in notices:
        warnings.warn(getattr(errors, notice.name)(notice.text), stacklevel=3)
