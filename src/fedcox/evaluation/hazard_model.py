"""The hazard model of a comparison, of grouped time or pieces: agreed on, ready to be trained.

Covariates are standardised over all centers, so that one learning rate suits every column; a
missing value counts as the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.scheme import LinearRisk, Recipe, Trained
from fedcox.evaluation.traffic import Traffic
from fedcox.federation.queries.interval_counts import Counts
from fedcox.federation.setting import Setting
from fedcox.solvers.discrete_time_loss import DiscreteTimeLoss
from fedcox.solvers.newton import Newton
from fedcox.solvers.sampling import CellSampler
from fedcox.solvers.solver import Problem
from fedcox.study.agreement import Agreement, agree
from fedcox.study.plan import Plan
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.link import AbstractLink, WeightedEvents
from fedcox.survival.scaling import Scaling


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

    def sampler(self, size: int, seed: int) -> CellSampler:
        """Batches of about `size` cells."""
        return CellSampler.of_size(size, self.setting, self.patients, self.cells, seed)

    def trained(self, beta: FloatArray, notes: tuple[str, ...] = ()) -> Trained:
        """The risk of these coefficients, and what it took to find them."""
        scaling = self.setting.scaling
        coefficients = np.zeros(self.mean.size)
        coefficients[scaling.keep] = scaling.coefficients(beta)
        traffic = Traffic.since(self.federation.ledger, self.mark)
        return Trained(
            (LinearRisk(coefficients, self.mean),),
            notes,
            traffic.rounds,
            traffic.bytes_up,
            traffic.bytes_down,
        )


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
