"""How good is a scheme on patients it has not seen? Train on some, judge on the rest.

The c-index is Harrell's on true times, over the test patients of all centers together. A scheme
that gives several models, one for each center, has the mean of their indices.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from time import perf_counter

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, FedcoxWarning, InputError, StudyError
from fedcox.evaluation.folds import TestSet
from fedcox.evaluation.problem import renumbered
from fedcox.evaluation.scheme import AbstractScheme, Recipe, RiskModel, Trained
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index


@dataclass(frozen=True)
class Judgement:
    """A scheme on one test set; `c_index` None and a sentence in `notes` where it has none."""

    c_index: float | None
    patients: int
    events: int
    trained_on: int
    seconds: float
    rounds: int
    bytes_up: int
    bytes_down: int
    notes: tuple[str, ...]


def judge(
    scheme: AbstractScheme,
    cohorts: Mapping[str, Cohort],
    test_set: TestSet,
    recipe: Recipe,
    *,
    seed: int,
) -> Judgement:
    """Train on everybody outside the test set, and compare the risks of those inside.

    Patients that cannot be trained on or compared – no event among them, say, or fewer than
    the study has pieces – are no error here: the index is None and the notes say why.
    """
    federation = training_federation(cohorts, test_set, horizon=recipe.horizon)
    tested = held_out_patients(cohorts, test_set)
    trained, seconds = _trained(scheme, federation, recipe, seed)
    c_index, why = mean_index(trained.models, tested)
    return Judgement(
        c_index,
        patients=tested.patients,
        events=int(tested.event.sum()),
        trained_on=sum(center.cohort.patients for center in federation.centers),
        seconds=seconds,
        rounds=trained.rounds,
        bytes_up=trained.bytes_up,
        bytes_down=trained.bytes_down,
        notes=(*trained.notes, *why),
    )


def training_federation(
    cohorts: Mapping[str, Cohort], test_set: TestSet, *, horizon: float | None = None
) -> InProcess:
    """The centers without their test patients, and without centers that have no others.

    Patients keep the order of their numbers and are numbered through again, so a batch drawn
    over the training patients does not depend on the centers they lie in. What happens after
    the horizon no scheme learns from, whether or not it knows intervals.
    """
    parts = {name: cohort.take(~test_set[name]) for name, cohort in cohorts.items()}
    if horizon is not None:
        parts = {name: followed_up_to(horizon, part) for name, part in parts.items()}
    return InProcess.from_cohorts(
        {name: part for name, part in renumbered(parts).items() if part.patients}
    )


def followed_up_to(horizon: float, cohort: Cohort) -> Cohort:
    """The same patients, censored at the horizon."""
    return replace(
        cohort,
        time=np.minimum(cohort.time, horizon),
        event=cohort.event & (cohort.time <= horizon),
    )


def held_out_patients(cohorts: Mapping[str, Cohort], test_set: TestSet) -> Cohort:
    """The test patients of all centers together."""
    return Cohort.joined([cohorts[name].take(test_set[name]) for name in sorted(cohorts)])


def mean_index(
    models: tuple[RiskModel, ...], patients: Cohort
) -> tuple[float | None, tuple[str, ...]]:
    """The mean of the models' c-indices, or None and why there is none."""
    if not models:
        return None, ("No model could be trained.",)
    try:
        concordances = [
            concordance_index(patients.time, patients.event, model.risk(patients.covariates))
            for model in models
        ]
    except CohortError as error:
        return None, (_in_words(error),)
    indices = [one.index for one in concordances if one.index is not None]
    if not indices:
        return None, (_incomparable(patients),)
    return fmean(indices), ()


def _trained(
    scheme: AbstractScheme, federation: InProcess, recipe: Recipe, seed: int
) -> tuple[Trained, float]:
    """What was learned, with every warning of fedcox among its notes, and the seconds."""
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FedcoxWarning)
        try:
            trained = scheme.train(federation, recipe, seed)
        except (CohortError, StudyError) as error:
            trained = Trained((), notes=(_in_words(error),))
    seconds = perf_counter() - start
    heard = [str(one.message) for one in caught if issubclass(one.category, FedcoxWarning)]
    for other in caught:
        if not issubclass(other.category, FedcoxWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return replace(trained, notes=tuple(dict.fromkeys([*trained.notes, *heard]))), seconds


def _in_words(error: InputError) -> str:
    return " ".join([error.subject, *error.faults])


def _incomparable(patients: Cohort) -> str:
    if not patients.event.any():
        return "The test set has no event, so there is no c-index."
    return "No two patients of the test set can be compared, so there is no c-index."
