"""Schemes of Cox's model: pooled, of each center, stratified, from sums over risk sets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.data.wording import SMALL_CELL
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.evaluation.scheme import LinearRisk, Recipe, RiskModel, Trained, pooled
from fedcox.federation.center import Center
from fedcox.federation.ledger import BYTES_PER_NUMBER
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.stratified_cox import CoxSetting
from fedcox.federation.query import Federation
from fedcox.solvers.batch_training import BatchTraining, patient_sampler
from fedcox.solvers.losses import StratifiedCoxLoss
from fedcox.solvers.solver import AbstractSolver, Problem
from fedcox.study.cox import CoxFit, CoxLossName, fit_cox
from fedcox.study.scale import check_patients, common_scale
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.partial_likelihood import Ties

#: On standardised covariates, where an event tells about 1: a hundredth of an event.
FAINT_RIDGE = 0.01


def train_cox(
    federation: Federation,
    ties: Ties,
    ridge: float,
    loss: CoxLossName = "stratified",
    solver: AbstractSolver | None = None,
) -> Trained:
    """One model that gives finite risks, or none; the notes say what is special in it.

    A risk score, whatever the patients are like. Without a penalty some fits have no optimum:
    too few events for the columns, or a category without events. The likelihood then keeps
    rising in some direction, and where a solver gives up is an accident. Such a fit is repeated
    with a faint ridge, whose optimum exists and is unique; it follows the same direction as far
    as a hundredth of an event allows. The c-index looks only at the order of the risks, which
    is what that direction decides.
    """

    def fitted(penalty: float | FloatArray) -> CoxFit:
        return fit_cox(federation, ties=ties, ridge=penalty, loss=loss, solver=solver)

    mark, notes = federation.ledger.mark(), []
    fit = fitted(ridge)
    if not ridge and (fit.separated.any() or not fit.converged):
        notes.append(no_optimum("Cox's model", fit.separated))
        # A constant column has no spread and no coefficient; any penalty does.
        fit = fitted(FAINT_RIDGE * np.where(fit.spread > 0, fit.spread, 1.0) ** 2)
    if not fit.converged:
        notes.append("Cox's model was left before its optimum, where the solver stopped.")
    usable = np.isfinite(fit.coefficients).all() and not fit.aliased.all()
    if not usable:
        notes.append("Cox's model has no coefficient to tell patients apart with.")
    models = (LinearRisk(fit.coefficients, fit.mean),) if usable else ()
    return Trained.since(mark, federation, models, notes)


def no_optimum(model: str, separated: BoolArray) -> str:
    """Without sizes: they differ from fold to fold, and small ones speak of a few patients."""
    what = "the solver did not reach an optimum"
    if separated.any():
        what = "some coefficient grows without bound"
    return (
        f"{model}: {what}; fitted again with a ridge of {FAINT_RIDGE:g} on standardised "
        "covariates."
    )


def without_messages(trained: Trained) -> Trained:
    """Of a training on pooled patients, who send none."""
    return replace(trained, rounds=0, bytes_up=0, bytes_down=0)


def train_pooled(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """What every federated scheme would like to equal."""
    return without_messages(train_cox(pooled(federation), recipe.ties, recipe.ridge))


def train_stratified(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """Every patient is compared with those of the own center only."""
    return train_cox(federation, recipe.ties, recipe.ridge)


def train_each_center(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """One model for each center that has patients to compare; the others are named."""
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
        trained = train_cox(alone, recipe.ties, recipe.ridge)
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


def train_ensemble(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """One round: every center sends its model, coefficients and means, once."""
    local = train_each_center(federation, recipe, seed)
    if not local.models:
        return local
    numbers = 2 * federation.centers[0].cohort.columns * len(local.models)
    up = BYTES_PER_NUMBER * numbers
    return Trained((MeanRisk(local.models),), local.notes, rounds=1, bytes_up=up)


def train_on_batches(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """Adam on batches of patients drawn over all centers, of which each takes its share.

    The risk set of a patient is everyone in the batch *and* the center observed as long; with
    one center this is Cox's loss on pooled minibatches. Covariates are standardised over all
    centers, so that one learning rate suits every column; a missing value counts as the mean.
    """
    mark = federation.ledger.mark()
    sums, outcomes = federation.ask_together([CovariateSums(), OutcomeCounts()])
    check_patients(sums)
    if not outcomes.events:
        raise CohortError("No training patient has an event.")
    mean = sums.mean
    scale = common_scale(
        mean,
        federation.ask(CovariateScatter(mean)),
        sums.patients,
        columns=[f"x{number}" for number in range(1, mean.size + 1)],
        penalised=True,  # training from zero gives columns that repeat each other equal shares
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
    return Trained.since(mark, federation, (LinearRisk.of_scaled(beta, scaling, mean),))


def train_on_pooled_batches(federation: InProcess, recipe: Recipe, seed: int) -> Trained:
    """The risk set of a patient is everyone in the batch who is observed as long."""
    return without_messages(train_on_batches(pooled(federation), recipe, seed))


def train_webdisco(
    federation: InProcess, recipe: Recipe, seed: int, *, solver: AbstractSolver
) -> Trained:
    """With second moments, a moment for every event time and pair of columns in every round.

    A solver of first order asks for these in the last round alone, which judges the optimum.
    The centers answer what no hospital should: nothing leaves this process.
    """
    centers = [replace(center, allow_experiments=True) for center in federation.centers]
    trained = train_cox(InProcess(centers), "breslow", recipe.ridge, "webdisco", solver)
    cohorts = [center.cohort for center in federation.centers]
    times = np.concatenate([cohort.time[cohort.event] for cohort in cohorts])
    if recipe.ties == "breslow" or np.unique(times).size == times.size:
        return trained
    note = "WebDISCO knows Breslow's treatment of tied event times only; it was used here."
    return replace(trained, notes=(*trained.notes, note))
