"""What does an attack have to work with: messages of a fit, and a coordinator to ask with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.half_space import Reach
from fedcox.evaluation.attacks.looks import LifeTable, Source, sources
from fedcox.evaluation.attacks.observer import Exchange, Observer
from fedcox.federation.setting import Setting
from fedcox.survival.time_grid import TimeGrid


@dataclass(frozen=True, eq=False)
class Scene:
    """One study under one protection, from the coordinator's chair.

    `tables` are the life tables of every source. `observer` begins the study anew, with centers
    that have answered nothing yet. `reach` is what the centers' policy lets parameters do, and
    `own_grid` the study's before any interval was joined.
    """

    exchanges: Sequence[Exchange]
    setting: Setting
    tables: Mapping[str, LifeTable]
    observer: Callable[[], Observer]
    reach: Reach
    own_grid: TimeGrid
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Patients of every source, in the order of the patients' numbers."""
        return {name: table.patients for name, table in self.tables.items()}

    @property
    def patients(self) -> int:
        return sum(self.sizes.values())

    @property
    def sources(self) -> dict[str, Source]:
        """What the fit's messages tell of every source."""
        return sources(self.exchanges, self.setting, self.tables)

    def rng(self) -> np.random.Generator:
        """For the starts of searches."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Attack:
    """A way to read patients off replies.

    `run` gives claims as it finds them, until a center refuses. `aims_at` counts the patients
    it could find at best. An `active` one asks what no honest study asks.
    """

    name: str
    active: bool
    run: Callable[[Scene], Iterator[Candidate]]
    aims_at: Callable[[Scene], int] = lambda scene: scene.patients
