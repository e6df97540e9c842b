"""LOCAL: every center fits Cox's model on its own patients."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.data.wording import SMALL_CELL
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.evaluation.cox_model import CoxTraining
from fedcox.evaluation.scheme import AbstractScheme, Recipe, RiskModel, Trained
from fedcox.federation.center import Center
from fedcox.federation.queries.outcome_counts import OutcomeCounts


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
            trained = _own_model(center, recipe)
            models.extend(trained.models)
            notes.extend(f"Center '{center.name}': {note}" for note in trained.notes)
        return Trained(tuple(models), tuple(notes))


def _own_model(center: Center, recipe: Recipe) -> Trained:
    alone = InProcess([center])
    size = alone.ask(OutcomeCounts())
    if size.patients < 2:
        return Trained((), (_too_few("patients"),))
    if not size.events:
        return Trained((), (_too_few("events"),))
    try:
        own = CoxTraining(recipe.ties, recipe.ridge).train(alone)
    except CohortError as error:
        return Trained((), (f"left out. {error.subject}",))
    return own if own.models else Trained((), (*own.notes, "left out."))


def _too_few(what: str) -> str:
    """How many exactly would speak of a few patients."""
    return f"left out with too few {what} for a model: fewer than {SMALL_CELL} {what}."
