"""Cox's loss trained on batches of patients, each center comparing its own among themselves.

With one center this is Cox's loss on pooled minibatches. Covariates are standardised over all
centers, so that one learning rate suits every column; a missing value counts as the mean.
"""

from __future__ import annotations

import numpy as np

from fedcox.errors import CohortError
from fedcox.evaluation.scheme import LinearRisk, Recipe, Trained
from fedcox.evaluation.traffic import Traffic
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.stratified_cox import CoxSetting
from fedcox.federation.query import Federation
from fedcox.solvers.batch_training import BatchTraining, PatientSampler
from fedcox.solvers.losses import StratifiedCoxLoss
from fedcox.solvers.solver import Problem
from fedcox.study.scale import check_patients, common_scale


def train_cox_on_batches(federation: Federation, recipe: Recipe, seed: int) -> Trained:
    """Adam on batches of patients drawn over all centers; risk sets inside batch and center."""
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
    sampler = PatientSampler(problem.loss, recipe.batch_size, sums.patients, seed)
    training = BatchTraining(recipe.learning_rate, recipe.batches)
    _, beta = training.train(federation, problem, sampler)
    coefficients = np.zeros(mean.size)
    coefficients[scaling.keep] = scaling.coefficients(beta)
    traffic = Traffic.since(federation.ledger, mark)
    return Trained(
        (LinearRisk(coefficients, mean),),
        rounds=traffic.rounds,
        bytes_up=traffic.bytes_up,
        bytes_down=traffic.bytes_down,
    )
