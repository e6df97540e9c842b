"""What to say of a fit under noise: that it did not arrive, or what noise changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcox.solvers.private_ascent import PrivateSolution, usual_traces
from fedcox.solvers.private_newton import OFF_BY, PublicScale
from fedcox.study.fit_rows import Notice
from fedcox.study.study_tables import Noise

if TYPE_CHECKING:
    from fedcox.study.noised_fit import PublicPieces
    from fedcox.study.study import Study

#: So large a part of the events is worth a word; where the model is right it is less.
_MANY_LEFT_OUT = 0.01
#: A range of so many standard deviations is wide. A level is rare where one of its patients
#: comes that near to the information that counts in full.
_WIDE, _RARE = 20.0, 0.8


def noise_notices(
    study: Study, solution: PrivateSolution, public: PublicScale, planned: PublicPieces
) -> list[Notice]:
    """All of them; of a fit that did not arrive the reasons alone."""
    if solution.faults:
        return [_not_arrived(study, solution)]
    return [
        *_left_out(solution),
        *_far_out(study, solution, public),
        *_off_the_plan(study, solution, planned),
    ]


def _not_arrived(study: Study, solution: PrivateSolution) -> Notice:
    names = [study.schema.encoded_names[at] for at in np.flatnonzero(solution.separated)]
    effects = f" The effect of {', '.join(names)} may have no end." if names else ""
    return Notice(
        "NotConvergedWarning",
        "The fit did not arrive: "
        + "; ".join(solution.faults)
        + f".{effects} So there are no intervals and no p-values, and ratios may be noise "
        "and nothing else. Allow a larger epsilon, plan with more patients, or with fewer "
        "covariates, rare levels or pieces.",
    )


def _left_out(solution: PrivateSolution) -> list[Notice]:
    """Patients far out: they decide nothing where the model is right, and much where not."""
    _, expected, error = solution.left_out
    events = float(solution.metric.events.sum())
    if expected < max(_MANY_LEFT_OUT * events, 3.0 * error):
        return []
    return [
        Notice(
            "NoiseWarning",
            "Patients whose covariates lie far out, or whose risk is high, do not count in "
            f"full: about {expected:.0f} events (give or take {2.0 * error:.0f}) that the "
            "model expects of them are left out. Where the model is not right for them "
            "coefficients differ from those of a fit without noise. Columns with long tails "
            "are better taken as logarithms.",
        )
    ]


def _far_out(study: Study, solution: PrivateSolution, public: PublicScale) -> list[Notice]:
    """Columns of which some patients lie so far out that they do not count in full."""
    scaling, names = solution.setting.scaling, study.schema.encoded_names
    wide = public.are_numbers & (public.widths > _WIDE * scaling.spread)
    share = np.where(public.are_numbers, 1.0, np.maximum(scaling.mean, 0.0))
    rare = share * _RARE * usual_traces(share.size) < 1.0
    notes = [
        f"The range of {names[at]} is over {public.widths[at] / scaling.spread[at] - 0.5:.0f} "
        "standard deviations wide. Where the column has a long tail, patients far out do not "
        "count in full: take its logarithm. Else name a narrower range, which costs less."
        for at in np.flatnonzero(wide)
    ] + [
        f"About {share[at]:.1%} of the patients are {names[at]}. So few do not count in full: "
        "the standard error is larger than noise would have to make it."
        for at in np.flatnonzero(rare)
    ]
    return [Notice("NoiseWarning", note) for note in notes]


def _off_the_plan(
    study: Study, solution: PrivateSolution, planned: PublicPieces
) -> list[Notice]:
    """Where the noised life table has other times or events than the study file supposes."""
    notes, edges, horizon = [], solution.setting.grid.edges, float(planned.cells.horizon)
    if edges[-1] < horizon:
        notes.append(
            f"Time ends at {edges[-1]:g}, not at the study's {horizon:g}: beyond it the "
            "patients who are left do not stand out of the noise. Later events are left out."
        )
    named = int(np.count_nonzero(planned.cells.edges <= edges[-1]))
    if not planned.cut and edges.size < named:
        notes.append(
            f"Of the {named} pieces of time that the study names {named - edges.size} were "
            "joined with neighbours, since their events do not stand out of the noise."
        )
    wanted = study.grid.pieces
    if planned.cut and wanted is not None and edges.size < wanted:
        notes.append(
            f"Time is cut into {edges.size} pieces, not into the {wanted} of the study: each "
            "has whole units of time, and events that stand out of the noise."
        )
    noise = study.privacy.noise
    expected = noise.expected_events if isinstance(noise, Noise) else 0
    found = float(solution.metric.events.sum())
    if not OFF_BY * expected <= found <= expected / OFF_BY:
        then = "noise costs more of the standard errors than was planned; it is counted in them"
        if found > expected:
            then = "at this price epsilon could be smaller, or noise cost less"
        notes.append(
            f"There are about {found:,.0f} events, where the study supposes {expected:,}. So "
            f"{then}. Name about the right number in [privacy.noise] events."
        )
    return [Notice("NoiseWarning", note) for note in notes]
