"""Which phi computes a network? The one-pass form where there is one, else its module."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import local

import torch

from fedcox.models.architecture import AbstractArchitecture, TileScorer, TileScorerWithTable
from fedcox.models.flat_parameters import assign, build, check_theta
from fedcox.models.module_rules import check_scores
from fedcox.models.network import Precision
from fedcox.models.network_patients import NetworkPatients
from fedcox.models.phi import AbstractPhi, BagPhi, LoadedModule, TablePhi, TilePhi
from fedcox.models.tile_scorer import TileScorerWeights
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True, eq=False)
class NetworkPhi:
    """phi of an architecture at any θ; a module is made once in each thread."""

    architecture: AbstractArchitecture
    precision: Precision
    device: str
    _own: local = field(default_factory=local, repr=False)  # modules are not for two threads

    @property
    def dtype(self) -> torch.dtype:
        """That of tables and of modules; bfloat16 is for products over tiles."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def at(self, theta: FloatArray, patients: NetworkPatients) -> AbstractPhi:
        """Give phi with the weights `theta`, until it is asked for with other ones."""
        check_theta(self.architecture, theta)
        coarse = self.precision == "bfloat16"
        if isinstance(self.architecture, TileScorer | TileScorerWithTable):
            whole = torch.tensor(theta, dtype=torch.float64, device=self.device)
            weights = TileScorerWeights.of(self.architecture, whole)
            return TilePhi(weights, patients, torch.bfloat16 if coarse else self.dtype)
        loaded: LoadedModule | None = getattr(self._own, "loaded", None)
        module = loaded or LoadedModule.of(build(self.architecture).to(self.device, self.dtype))
        assign(module.module, theta)
        phi: AbstractPhi = TablePhi(module, patients)
        if self.architecture.inputs != "table":
            phi = BagPhi(module, patients, coarse)
        if loaded is None and patients.patients:
            check_scores(self.architecture.name, phi, patients.patients)
            self._own.loaded = module
        return phi
