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
    from fedcox.study.study import Study

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

    Time is divided by `width`, by `edges`, into so many `pieces`, or at `every_event`; with
    none of these pieces are cut where the events are (grouped links: at every event). `horizon`
    None is agreed on by asking, up to `longest` where only sums over centers are seen.
    `resolution` is the unit of the record, None to be looked for; `few_pieces` cuts as between
    hospitals, wherever the patients are; `spline` is the number of parameters of a smooth
    baseline.
    """

    columns: tuple[str, ...]
    link: AbstractLink
    reading: CensoredInterval
    width: float | None
    horizon: float | None
    ridge: float
    solver: AbstractSolver
    longest: float = LONGEST
    edges: tuple[float, ...] | None = None
    pieces: int | None = None
    every_event: bool = False
    resolution: float | None = None
    few_pieces: bool = False
    spline: int | None = None

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
            longest=study.privacy.longest or LONGEST,
            edges=study.grid.edges,
            pieces=study.grid.pieces,
            every_event=study.grid.times is not None,
            resolution=study.outcome.resolution,
            spline=study.model.spline,
        )
