"""Schemes of the hazard model: on batches as in the paper, to its optimum, by local steps.

Covariates are standardised over all centers, so that one learning rate suits every column; a
missing value counts as the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.scheme import AbstractScheme, LinearRisk, Recipe, Trained
from fedcox.evaluation.schemes.cox import FAINT_RIDGE, no_optimum
from fedcox.federation.queries.interval_counts import Counts
from fedcox.federation.setting import Setting
from fedcox.solvers.batch_training import BatchTraining, Sampler, cell_sampler
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Problem
from fedcox.study.agreement import Agreement, agree
from fedcox.study.plan import Plan
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.weighted_events import WeightedEvents


@dataclass(frozen=True, eq=False)
class HazardModel:
    """Grid, link, scale and counts of all training patients."""

    federation: InProcess
    mark: tuple[int, int]  # of the ledger, before the first question
    setting: Setting
    patients: int
    cells: float  # of fitted intervals; in grouped time halves count one half
    at_risk: FloatArray  # (fitted intervals,)
    events: FloatArray  # (fitted intervals,)
    mean: FloatArray  # (columns,)
    ridge: float

    @classmethod
    def agreed(
        cls,
        federation: InProcess,
        recipe: Recipe,
        link: AbstractLink,
        *,
        every_column: bool,
        every_interval: bool = False,
    ) -> HazardModel:
        """Two rounds: sums and grid, then scatter and counts.

        With `every_column` those that repeat others stay: training from zero, or a ridge,
        shares their effect among them. An exact optimum without a ridge exists only without
        them. With `every_interval` those without an event stay, as in the paper's stack:
        training by steps ends long before their baseline is at minus infinity. Pieces are cut
        as between hospitals, unless the recipe names them.
        """
        mark = federation.ledger.mark()
        columns = federation.centers[0].cohort.columns
        names = tuple(f"x{number}" for number in range(1, columns + 1))
        plan = Plan(
            names,
            link,
            recipe.censored_interval,
            recipe.width,
            recipe.horizon,
            recipe.ridge,
            Newton(),
            edges=recipe.edges,
            pieces=recipe.pieces,
            every_event=recipe.every_event,
            resolution=recipe.resolution,
            few_pieces=True,
        )
        agreement = agree(plan, federation)
        setting, counts = agreement.setting, agreement.counts
        stacked = _up_to_the_last_event(counts)
        if recipe.balanced and link.grouped:  # else weights move the baseline alone
            link = balanced(link, counts.at_risk[stacked], counts.events[stacked])
        active = stacked if every_interval else setting.active
        scaling = _all_that_vary(agreement) if every_column else setting.scaling
        return cls(
            federation,
            mark,
            Setting(setting.grid, active, setting.reading, link, scaling),
            counts.patients,
            float(counts.cells(grouped=link.grouped)[active].sum()),
            counts.at_risk[active],
            counts.events[active],
            agreement.mean,
            recipe.ridge,
        )

    def problem(self, *, alpha: FloatArray | None = None) -> Problem:
        """From no effects, and from `alpha` or the observed share of events per interval."""
        setting = self.setting
        if alpha is None:
            alpha = setting.link.intercept(self.events / self.at_risk)
        return Problem(
            DiscreteTimeLoss(setting),
            alpha,
            np.zeros(setting.columns),
            self.ridge / setting.scaling.spread**2,
            self.patients,
            float(self.events.sum()),
        )

    def sampler(self, size: int, seed: int) -> Sampler:
        """Batches of about `size` cells."""
        return cell_sampler(size, self.setting, self.patients, self.cells, seed)

    def trained(self, beta: FloatArray, notes: Sequence[str] = ()) -> Trained:
        """The risk of these coefficients, and what it took to find them."""
        risk = LinearRisk.of_scaled(beta, self.setting.scaling, self.mean)
        return Trained.since(self.mark, self.federation, (risk,), notes)


def balanced(link: AbstractLink, at_risk: FloatArray, events: FloatArray) -> WeightedEvents:
    """Events weighted by the ratio of cells without to cells with one, over all centers."""
    with_event = float(events.sum())
    return WeightedEvents(link, (float(at_risk.sum()) - with_event) / with_event)


def _up_to_the_last_event(counts: Counts) -> BoolArray:
    """The intervals of the paper's stack: with anybody at risk, events or not."""
    last = int(np.flatnonzero(counts.events)[-1])
    return np.asarray((counts.at_risk > 0) & (np.arange(counts.at_risk.size) <= last))


def _all_that_vary(agreement: Agreement) -> Scaling:
    keep = np.flatnonzero(~agreement.constant)
    return Scaling(keep, agreement.mean[keep], agreement.spread[keep])


def train_on_cells(
    federation: InProcess, recipe: Recipe, seed: int, *, grouped: bool
) -> Trained:
    """Adam from β = 0; the same path however the patients are split over centers.

    Grouped time begins at α = 0, as in the paper; pieces, where zero is no likely hazard, at
    the observed ones.
    """
    link = recipe.link_of(grouped=grouped)
    model = HazardModel.agreed(
        federation, recipe, link, every_column=True, every_interval=grouped
    )
    training = BatchTraining(recipe.learning_rate, recipe.cell_batches)
    alpha = np.zeros(model.setting.intervals) if grouped else None
    sampler = model.sampler(recipe.cell_batch_size, seed)
    _, beta = training.train(federation, model.problem(alpha=alpha), sampler)
    return model.trained(beta, recipe.notes_on(link))


def train_to_optimum(
    federation: InProcess, recipe: Recipe, seed: int, *, grouped: bool
) -> Trained:
    """What training on batches would reach if it went on to the end, in a handful of rounds.

    Where some coefficient has no optimum, the fit is repeated with a faint ridge, as Cox's.
    """
    link = recipe.link_of(grouped=grouped)
    model = HazardModel.agreed(federation, recipe, link, every_column=bool(recipe.ridge))
    solution = Newton().minimise(federation, model.problem())
    notes = [*recipe.notes_on(link)]
    if not recipe.ridge and (solution.separated.any() or not solution.converged):
        notes.append(no_optimum("The hazard model", solution.separated))
        mark = model.mark
        model = HazardModel.agreed(federation, recipe, link, every_column=True)
        model = replace(model, mark=mark)
        faint = np.full(model.setting.columns, FAINT_RIDGE)
        solution = Newton().minimise(federation, replace(model.problem(), ridge=faint))
    if not solution.converged:
        notes.append("The hazard model was left before its optimum was reached.")
    return model.trained(solution.beta, notes)


@dataclass(frozen=True)
class FedAvg(AbstractScheme):
    """Local steps on all own patients between rounds: fewer messages, another optimum."""

    rounds: int = 100
    local_steps: int = 5
    learning_rate: float = 0.2

    name = "FEDAVG"
    summary = "The study's own hazard model by federated averaging"
    federated = True

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        model = HazardModel.agreed(federation, recipe, LINKS[recipe.link], every_column=True)
        averaging = FederatedAveraging(self.learning_rate, self.rounds, self.local_steps)
        _, beta = averaging.train(federation, model.problem())
        return model.trained(beta)
