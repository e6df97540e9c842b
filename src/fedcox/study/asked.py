"""What will a study ask of a hospital? Every question by its name, and what leaves in words.

A center that took a study answers these and no others, so the list is complete: questions that
the solver asks only sometimes are on it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedcox.study.study import Study
from fedcox.study.study_tables import (
    AdamSolver,
    FedavgSolver,
    LbfgsSolver,
    NewtonSolver,
    Noise,
)
from fedcox.survival.link import LINKS

_WORDS = {
    "patients and events": "how many patients, and how many events",
    "covariate sums": "the sum of every covariate, and how many values are known",
    "covariate scatter": "sums of squares and products of the covariates",
    "interval counts": "patients at risk and events, for every interval",
    "longest follow-up": "the longest time of follow-up of any patient",
    "last interval": "the last interval that any patient of any center reaches",
    "distinct event times": "every time at which a patient had the event",
    "recorded unit": "the largest unit of which all times are whole numbers, and the longest",
    "fractional times": "how many event times are whole numbers of days, weeks, tenths, …",
    "gradient": "the loss and its slope, summed over the patients",
    "diagonal": "the loss, its slope, and its curvature in each parameter",
    "block": "the loss, its slope, and its curvature in every pair of covariates",
    "hessian": "the loss, its slope, and its curvature in every pair of parameters",
    "information": "the same as expected by the model, for standard errors",
    "local steps": "parameters after some steps on this hospital's patients alone",
    "noised life table": "how many patients leave in each cell of time, with and without the "
    "event, with noise",
    "noised covariate moments": "sums of the covariates and of their squares, with noise",
    "noised covariate products": "squares and products of the covariates, with noise",
    "noised event moments": "sums of the covariates of those with the event, with noise",
    "noised score": "the slope of the log-likelihood, with noise",
    "noised information": "the curvature of the log-likelihood, with noise",
    "network gradient": "a network's loss, and its slope in every weight and interval",
    "network loss": "a network's loss, one number, and how many patients it is over",
    "network steps": "a network's weights after training on this hospital's patients alone",
    "clipped network gradient": "a network's slope to which each patient, with all slides, "
    "adds little, with noise",
    "baseline gradient": "the loss by a network's risks, and its slope in the baseline",
    "baseline diagonal": "loss, slope and curvature in the baseline of each interval",
    "baseline hessian": "loss, slope and curvature in the baseline and in one factor of risks",
    "baseline information": "the same as expected by the model",
    "tile counts": "patients with slides, and their tiles",
    "tile moments": "sums of squares and products of the features of all tiles",
}


#: What a study under noise asks.
NOISED = (
    "noised life table",
    "noised covariate moments",
    "noised covariate products",
    "noised event moments",
    "noised score",
    "noised information",
)
#: What part of the patients a question is put to; a longer name comes first.
_PARTS = (" of a batch of cells", " of a batch", " of a sample", " of held-out patients")


def asked_by(study: Study) -> dict[str, str]:
    """Every question the study may ask, in about the order in which it does."""
    if isinstance(study.privacy.noise, Noise):
        return {name: question_words(name) for name in NOISED}
    return {name: question_words(name) for name in (*_agreement(study), *_solver(study))}


def _agreement(study: Study) -> Iterator[str]:
    yield "covariate sums"
    grouped = LINKS[study.model.link].grouped
    if study.grid.times is not None:
        yield "distinct event times"
    open_end = study.grid.horizon is None and study.grid.edges is None
    if open_end and (study.grid.times is None or not grouped):
        yield "last interval" if study.privacy.secure_sums else "longest follow-up"
    if not grouped and study.outcome.resolution is None:
        yield "fractional times"
    yield "interval counts"
    yield "covariate scatter"


def _solver(study: Study) -> Iterator[str]:
    solver = study.solver
    if isinstance(solver, NewtonSolver):
        yield from ("hessian", "gradient")
    elif isinstance(solver, LbfgsSolver):
        yield from (solver.scaling, "gradient")
    elif isinstance(solver, FedavgSolver):
        yield from ("diagonal", "local steps")
    elif isinstance(solver, AdamSolver):
        compressed = "" if solver.compression == "none" else "compressed "
        batch = "" if solver.batch_size is None else " of a batch"
        yield f"{compressed}gradient{batch}"
    yield "information"


def question_words(name: str) -> str:
    """What leaves a hospital that answers the question of this name."""
    plain = name.removeprefix("compressed ")
    for part in _PARTS:
        if plain.endswith(part):
            return f"{_WORDS[plain.removesuffix(part)]},{part}"
    return _WORDS[plain]
