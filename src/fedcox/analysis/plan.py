"""The choices of a study as objects: what the mathematics needs, and nothing of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcox.solvers.adam import Adam
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.time_grid import CensoredInterval

if TYPE_CHECKING:
    from fedcox.analysis.study import Study

SOLVERS: dict[str, type[Newton | LBFGS | Adam | FederatedAveraging]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "adam": Adam,
    "fedavg": FederatedAveraging,
}

#: A public bound on follow-up: fifty years in days.
LONGEST = 18262.0


@dataclass(frozen=True)
class Plan:
    """Link, grid, reading of censored intervals, penalty and solver.

    `width` None stands for every distinct event time; `horizon` None is agreed on by asking,
    up to `longest` where only sums over centers are seen. Intervals are merged until
    `smallest_group` patients leave in each, and end while `smallest_tail` are at risk.
    """

    columns: tuple[str, ...]
    link: AbstractLink
    reading: CensoredInterval
    width: float | None
    horizon: float | None
    ridge: float
    solver: AbstractSolver
    smallest_group: int = 0
    smallest_tail: int = 0
    longest: float = LONGEST

    @classmethod
    def of(cls, study: Study) -> Plan:
        settings = study.solver.model_dump()
        return cls(
            columns=study.schema.encoded_names,
            link=LINKS[study.model.link],
            reading=study.model.censored_interval,
            width=study.grid.width,
            horizon=study.grid.horizon,
            ridge=study.model.ridge,
            solver=SOLVERS[settings.pop("method")](**settings),
            smallest_group=study.privacy.group,
            smallest_tail=study.privacy.tail,
            longest=study.privacy.longest or LONGEST,
        )
