"""Schemes of Cox's model: pooled, of each center, stratified, from sums over risk sets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.data.wording import SMALL_CELL
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.evaluation.scheme import (
    AbstractScheme,
    LinearRisk,
    Recipe,
    RiskModel,
    Trained,
    TrainingTraffic,
    pooled,
)
from fedcox.federation.center import Center
from fedcox.federation.ledger import BYTES_PER_NUMBER
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.stratified_cox import CoxSetting
from fedcox.federation.query import Federation
from fedcox.solvers.batch_training import BatchTraining, patient_sampler
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.losses import StratifiedCoxLoss
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver, Problem
from fedcox.study.cox import CoxFit, CoxLossName, fit_cox
from fedcox.study.scale import check_patients, common_scale
from fedcox.survival.cohort import FloatArray
from fedcox.survival.partial_likelihood import Ties

#: On standardised covariates, where an event tells about 1: a hundredth of an event.
FAINT_RIDGE = 0.01


@dataclass(frozen=True)
class CoxTraining:
    """How to fit Cox's model on a federation.

    A risk score, whatever the patients are like. Without a penalty some fits have no optimum:
    too few events for the columns, or a category without events. The likelihood then keeps
    rising in some direction, and where a solver gives up is an accident. Such a fit is repeated
    with a faint ridge, whose optimum exists and is unique; it follows the same direction as far
    as a hundredth of an event allows. The c-index looks only at the order of the risks, which
    is what that direction decides.
    """

    ties: Ties
    ridge: float
    loss: CoxLossName = "stratified"
    solver: AbstractSolver | None = None

    def train(self, federation: Federation) -> Trained:
        """One model that gives finite risks, or none; the notes say what is special in it."""
        fit = self._fit(federation, self.ridge)
        notes = []
        if not self.ridge and (fit.separated.any() or not fit.converged):
            notes.append(_trouble(fit))
            fit = self._faintly_penalised(federation, fit)
        if not fit.converged:
            notes.append("Cox's model was left before its optimum, where the solver stopped.")
        usable = np.isfinite(fit.coefficients).all() and not fit.aliased.all()
        if not usable:
            notes.append("Cox's model has no coefficient to tell patients apart with.")
        return Trained(
            (LinearRisk(fit.coefficients, fit.mean),) if usable else (),
            tuple(notes),
            fit.rounds,
            fit.bytes_up,
            fit.bytes_down,
        )

    def _faintly_penalised(self, federation: Federation, first: CoxFit) -> CoxFit:
        # A constant column has no spread and no coefficient; any penalty does.
        spread = np.where(first.spread > 0, first.spread, 1.0)
        fit = self._fit(federation, FAINT_RIDGE * spread**2)
        return replace(
            fit,
            rounds=first.rounds + fit.rounds,
            bytes_up=first.bytes_up + fit.bytes_up,
            bytes_down=first.bytes_down + fit.bytes_down,
        )

    def _fit(self, federation: Federation, ridge: float | FloatArray) -> CoxFit:
        return fit_cox(
            federation, ties=self.ties, ridge=ridge, loss=self.loss, solver=self.solver
        )


def _trouble(fit: CoxFit) -> str:
    """Without sizes: they differ from fold to fold, and small ones speak of a few patients."""
    if fit.separated.any():
        what = "some coefficient grows without bound"
    else:
        what = "the solver did not reach an optimum"
    return (
        f"Cox's model: {what}; fitted again with a ridge of {FAINT_RIDGE:g} on standardised "
        "covariates."
    )


def train_cox_on_batches(federation: Federation, recipe: Recipe, seed: int) -> Trained:
    """Adam on batches of patients drawn over all centers; risk sets inside batch and center.

    With one center this is Cox's loss on pooled minibatches. Covariates are standardised over
    all centers, so that one learning rate suits every column; a missing value counts as the
    mean.
    """
    mark = federation.ledger.mark()
    sums, outcomes = federation.ask_together([CovariateSums(), OutcomeCounts()])
    check_patients(sums)
    if not outcomes.events:
        raise CohortError("No training patient has an event.")
    mean = sums.mean
    names = [f"x{number}" for number in range(1, mean.size + 1)]
    # Training from zero gives columns that repeat each other equal shares: none need go.
    scale = common_scale(
        mean,
        federation.ask(CovariateScatter(mean)),
        sums.patients,
        columns=names,
        penalised=True,
    )
    scaling = scale.scaling
    problem = Problem(
        StratifiedCoxLoss(CoxSetting(scaling, recipe.ties)),
        np.zeros(0),
        np.zeros(scaling.keep.size),
        recipe.ridge / scaling.spread**2,
        sums.patients,
        float(outcomes.events),
    )
    sampler = patient_sampler(problem.loss, recipe.batch_size, sums.patients, seed)
    training = BatchTraining(recipe.learning_rate, recipe.batches)
    _, beta = training.train(federation, problem, sampler)
    coefficients = np.zeros(mean.size)
    coefficients[scaling.keep] = scaling.coefficients(beta)
    traffic = TrainingTraffic.since(federation.ledger, mark)
    return Trained(
        (LinearRisk(coefficients, mean),),
        rounds=traffic.rounds,
        bytes_up=traffic.bytes_up,
        bytes_down=traffic.bytes_down,
    )


@dataclass(frozen=True)
class Pooled(AbstractScheme):
    """What every federated scheme would like to equal."""

    name = "POOL"
    summary = "Cox's model on pooled patients, by Newton's method"
    federated = False

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        trained = CoxTraining(recipe.ties, recipe.ridge).train(pooled(federation))
        return replace(trained, rounds=0, bytes_up=0, bytes_down=0)


@dataclass(frozen=True)
class Local(AbstractScheme):
    """One model for each center that has patients to compare; the others are named."""

    name = "LOCAL"
    summary = "Cox's model of each center alone; the mean of their indices"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        models: list[RiskModel] = []
        notes: list[str] = []
        for center in federation.centers:
            trained = _model_of(center, recipe)
            models.extend(trained.models)
            notes.extend(f"Center '{center.name}': {note}" for note in trained.notes)
        return Trained(tuple(models), tuple(notes))


def _model_of(center: Center, recipe: Recipe) -> Trained:
    alone = InProcess([center])
    size = alone.ask(OutcomeCounts())
    if size.patients < 2:
        return Trained((), (_too_few("patients"),))
    if not size.events:
        return Trained((), (_too_few("events"),))
    try:
        trained = CoxTraining(recipe.ties, recipe.ridge).train(alone)
    except CohortError as error:
        return Trained((), (f"left out. {error.subject}",))
    return trained if trained.models else Trained((), (*trained.notes, "left out."))


def _too_few(what: str) -> str:
    """How many exactly would speak of a few patients."""
    return f"left out with too few {what} for a model: fewer than {SMALL_CELL} {what}."


@dataclass(frozen=True, eq=False)
class MeanRisk:
    """The mean of several models' log risks."""

    models: tuple[RiskModel, ...]

    def risk(self, covariates: FloatArray) -> FloatArray:
        return np.asarray(np.mean([model.risk(covariates) for model in self.models], axis=0))


@dataclass(frozen=True)
class Ensemble(AbstractScheme):
    """One round: every center sends its model, coefficients and means, once."""

    name = "ENS"
    summary = "The mean of the log risks of the centers' own Cox models"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        local = Local().train(federation, recipe, seed)
        if not local.models:
            return local
        numbers = 2 * federation.centers[0].cohort.columns * len(local.models)
        return Trained(
            (MeanRisk(local.models),),
            local.notes,
            rounds=1,
            bytes_up=BYTES_PER_NUMBER * numbers,
        )


@dataclass(frozen=True)
class Minibatch(AbstractScheme):
    """The risk set of a patient is everyone in the batch who is observed as long."""

    name = "MINI"
    summary = "Cox's loss on minibatches of pooled patients, by Adam"
    federated = False

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        trained = train_cox_on_batches(pooled(federation), recipe, seed)
        return replace(trained, rounds=0, bytes_up=0, bytes_down=0)


@dataclass(frozen=True)
class Naive(AbstractScheme):
    """The risk set of a patient is everyone in the batch *and* the center observed as long.

    Batches are drawn over all patients, as MINI's are, and every center takes its share.
    """

    name = "N-FL"
    summary = "Cox's loss stratified by center, on minibatches, by Adam"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        return train_cox_on_batches(federation, recipe, seed)


@dataclass(frozen=True)
class Stratified(AbstractScheme):
    """Every patient is compared with those of the own center only."""

    name = "N-FL-EXACT"
    summary = "Cox's model stratified by center, by Newton's method"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        return CoxTraining(recipe.ties, recipe.ridge).train(federation)


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
        return _with_note_on_ties(training.train(as_experiment(federation)), federation, recipe)


@dataclass(frozen=True)
class WebDiscoGradient(AbstractScheme):
    """First moments alone in every round but the last, which judges the optimum."""

    name = "WEBDISCO-L-BFGS"
    summary = "The pooled Cox model from sums over risk sets, by L-BFGS; leaks patients"
    federated = True
    leaks = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        training = CoxTraining("breslow", recipe.ridge, "webdisco", LBFGS())
        return _with_note_on_ties(training.train(as_experiment(federation)), federation, recipe)


def as_experiment(federation: InProcess) -> InProcess:
    """The same centers, answering what no hospital should: nothing leaves this process."""
    return InProcess([replace(center, allow_experiments=True) for center in federation.centers])


def _with_note_on_ties(trained: Trained, federation: InProcess, recipe: Recipe) -> Trained:
    cohorts = [center.cohort for center in federation.centers]
    times = np.concatenate([cohort.time[cohort.event] for cohort in cohorts])
    if recipe.ties == "breslow" or np.unique(times).size == times.size:
        return trained
    note = "WebDISCO knows Breslow's treatment of tied event times only; it was used here."
    return replace(trained, notes=(*trained.notes, note))
