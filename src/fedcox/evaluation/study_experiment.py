"""A user's own study and files as an experiment."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fedcox.data.wording import quoted
from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.folds import small_centers
from fedcox.evaluation.problem import FixedPatients
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.scheme_choice import scheme_faults, schemes_named
from fedcox.evaluation.schemes import SCHEMES
from fedcox.study.study import Study
from fedcox.survival.link import LINKS


def recipe_of(study: Study) -> Recipe:
    """Grid, link, reading of censored intervals and ridge; all else as in the paper."""
    grid = study.grid
    return Recipe(
        width=grid.width,
        horizon=grid.horizon if grid.edges is None else grid.edges[-1],
        link=study.model.link,
        censored_interval=study.model.censored_interval,
        ridge=study.model.ridge,
        edges=grid.edges,
        pieces=grid.pieces,
        every_event=grid.times is not None,
        resolution=study.outcome.resolution,
    )


def usual_schemes(study: Study) -> list[str]:
    """Compared if nobody names any: Cox's model, pooled and naive, and the study's own."""
    own = "DT-FL-NEWTON" if LINKS[study.model.link].grouped else "PH-FL-NEWTON"
    return ["POOL", "N-FL-EXACT", own]


def study_experiment(
    study: Study,
    federation: InProcess,
    *,
    schemes: Sequence[str],
    folds: int | None = 5,
    left_out: bool = False,
    seeds: tuple[int, ...] = (0,),
    without: Sequence[str] = (),
) -> Experiment:
    """Compare schemes on a study's patients; every fault is raised at once.

    Centers named in `without` take no part at all.
    """
    faults = _unknown_centers(federation, without)
    parts = {
        center.name: center.cohort
        for center in federation.centers
        if center.name not in without
    }
    if not parts:
        raise InputError("No center is left.", ["Name fewer centers to do without."])
    try:
        experiment = Experiment(
            study.name,
            FixedPatients.of(parts),
            # Unknown names are told below; any scheme serves to find the other faults.
            schemes_named(schemes) or (SCHEMES["POOL"],),
            recipe_of(study),
            folds=folds,
            left_out=left_out,
            seeds=seeds,
        )
    except InputError as error:
        faults += error.faults
    small = small_centers(parts, folds or 0)
    if 0 < len(small) < len(parts):
        words = shlex.join(word for name in small for word in ("--without", name))
        faults.append(f"To leave those centers out, say {words}")
    faults += scheme_faults(schemes)
    if faults:
        raise InputError("This evaluation cannot be run as it is.", faults)
    return experiment


def _unknown_centers(federation: InProcess, names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in federation.names]
    if not unknown:
        return []
    return [
        f"There is no center {quoted(unknown, joint='or')} to do without; the centers are "
        f"{quoted(federation.names)}."
    ]
