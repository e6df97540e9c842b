"""WEBDISCO: the pooled Cox model from sums over risk sets, by Newton's method or gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.cox_model import CoxTraining
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton


@dataclass(frozen=True)
class WebDisco(AbstractScheme):
    """A second moment for every event time and pair of columns, in every round."""

    name = "WEBDISCO"
    summary = (
        "The pooled Cox model from sums over risk sets, by Newton's method; leaks patients"
    )
    federated = True
    leaks = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        training = CoxTraining("breslow", recipe.ridge, "webdisco", Newton())
        return _told_of_ties(training.train(as_experiment(federation)), federation, recipe)


@dataclass(frozen=True)
class WebDiscoGradient(AbstractScheme):
    """First moments alone in every round but the last, which judges the optimum."""

    name = "WEBDISCO-L-BFGS"
    summary = "The pooled Cox model from sums over risk sets, by L-BFGS; leaks patients"
    federated = True
    leaks = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        training = CoxTraining("breslow", recipe.ridge, "webdisco", LBFGS())
        return _told_of_ties(training.train(as_experiment(federation)), federation, recipe)


def as_experiment(federation: InProcess) -> InProcess:
    """The same centers, answering what no hospital should: nothing leaves this process."""
    return InProcess([replace(center, allow_experiments=True) for center in federation.centers])


def _told_of_ties(trained: Trained, federation: InProcess, recipe: Recipe) -> Trained:
    cohorts = [center.cohort for center in federation.centers]
    times = np.concatenate([cohort.time[cohort.event] for cohort in cohorts])
    if recipe.ties == "breslow" or np.unique(times).size == times.size:
        return trained
    note = "WebDISCO knows Breslow's treatment of tied event times only; it was used here."
    return replace(trained, notes=(*trained.notes, note))
