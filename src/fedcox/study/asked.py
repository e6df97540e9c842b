"""What will a study ask of a hospital? Every question by its name, and what leaves in words.

A center that took a study answers these and no others, so the list is complete: questions that
the solver asks only sometimes are on it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedcox.federation.queries import patient_level, words_of_queries
from fedcox.federation.queries.bounded_sums import (
    NoisedEventMoments,
    NoisedInformationAt,
    NoisedLifeTable,
    NoisedMoments,
    NoisedProducts,
    NoisedScoreAt,
)
from fedcox.study.study import Study
from fedcox.study.study_tables import (
    AdamSolver,
    FedavgSolver,
    LbfgsSolver,
    NewtonSolver,
    Noise,
)
from fedcox.survival.link import LINKS

#: What a study under noise asks.
NOISED = tuple(
    name
    for kind in (
        NoisedLifeTable,
        NoisedMoments,
        NoisedProducts,
        NoisedEventMoments,
        NoisedScoreAt,
        NoisedInformationAt,
    )
    for name in kind.names()
)


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
    words = words_of_queries()[name]
    return f"not a sum: {words}" if name in patient_level() else words
