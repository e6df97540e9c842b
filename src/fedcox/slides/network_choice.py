"""Which network is trained on slides, and on which loss? As the options say."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.models.architecture import TileScorer
from fedcox.models.network import Precision, SlideWeight
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.training import AbstractTrainer
from fedcox.study.plan import NetworkPlan
from fedcox.survival.link import LinkName


@dataclass(frozen=True)
class SlideNetworkChoice:
    """The options of `fedcox slides train` about the tile scorer, time and weights.

    `balanced` None is yes, but not under noise, where nobody counts events. `precision` None is
    what a device is quick with: half precision for products over tiles on a GPU, else single.
    """

    hidden: int
    width: float | None
    horizon: float | None
    link: LinkName
    balanced: bool | None
    slide_weight: SlideWeight
    device: str
    precision: Precision | None
    seed: int

    def plan(self, features: int, solver: AbstractTrainer) -> NetworkPlan:
        """The training of tiles with so many `features`."""
        private = isinstance(solver, PrivateNetwork)
        return NetworkPlan(
            TileScorer(features, self.hidden),
            self.width,
            self.horizon,
            self.link,
            balanced=not private if self.balanced is None else self.balanced,
            slide_weight=self.slide_weight,
            solver=solver,
            precision=self.precision or ("float32" if self.device == "cpu" else "bfloat16"),
            device=self.device,
            seed=self.seed,
        )
