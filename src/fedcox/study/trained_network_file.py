"""A trained network on disk with what its curves need: time grid, baseline, and scale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import InputError, WeightsError
from fedcox.federation.setting import Setting
from fedcox.files.writing import write_atomically
from fedcox.models.architecture import AbstractArchitecture
from fedcox.models.network import Network
from fedcox.study.trained_network import TrainedNetwork
from fedcox.study.versions import versions
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

_OWN = ("link", "reading", "width", "slope", "event_weight", "slide_weight", "precision")


def write_trained(path: str | Path, trained: TrainedNetwork) -> None:
    """Write the network as one safetensors file, whole or not at all."""
    from fedcox.models.network_file import TrainedNetworkFile, network_bytes

    setting, network = trained.setting, trained.network
    fitted = np.isfinite(trained.alpha)
    arrays = {
        "fitted": fitted.astype(np.float64),
        "events_only": np.isposinf(trained.alpha).astype(np.float64),
        "column": setting.scaling.keep.astype(np.float64),
        "column_mean": setting.scaling.mean,
        "column_spread": setting.scaling.spread,
    }
    grid = setting.grid
    if isinstance(grid, TimeGrid) and grid.ends is not None:
        arrays["ends"] = grid.ends.astype(np.float64)
    if isinstance(grid, Pieces):
        arrays["bounds"] = grid.bounds
    own = {
        "link": trained.link,
        "reading": setting.reading,
        "width": grid.width if isinstance(grid, TimeGrid) else grid.unit,
        "slope": trained.slope,
        "event_weight": network.event_weight,
        "slide_weight": network.slide_weight,
        "precision": network.precision,
    }
    facts = {**trained.facts, **own, "versions": versions()}
    file = TrainedNetworkFile(
        trained.architecture,
        trained.theta,
        trained.alpha[fitted],
        grid.edges,
        arrays,
        facts,
    )
    write_atomically(path, network_bytes(file))


def read_trained(
    path: str | Path, architecture: AbstractArchitecture | None = None, device: str = "cpu"
) -> TrainedNetwork:
    """The network of a file; a module of one's own is given as `architecture`."""
    from fedcox.models.network_file import read_network

    file = read_network(path, architecture)
    try:
        arrays, facts = file.arrays, dict(file.facts)
        fitted = arrays["fitted"] > 0
        grid = _grid(file.grid_edges, arrays, facts["width"])
        scaling = Scaling(
            arrays["column"].astype(np.int64), arrays["column_mean"], arrays["column_spread"]
        )
        network = _network(file.architecture, facts, device)
        link = LINKS[facts["link"]]
        setting = Setting(grid, fitted, facts["reading"], link, scaling, predictor=network)
        alpha = np.where(arrays["events_only"] > 0, np.inf, -np.inf)
        alpha[fitted] = file.alpha
        slope = float(facts["slope"])
    except (KeyError, ValueError, IndexError, TypeError, InputError) as error:
        raise WeightsError(
            f"{path} is not a network that can be used.",
            ["Its time grid, its baseline and its scale do not belong together."],
        ) from error
    kept = {name: value for name, value in facts.items() if name not in (*_OWN, "versions")}
    return TrainedNetwork(setting, file.theta, alpha, slope, facts=kept)


def _grid(edges: FloatArray, arrays: Mapping[str, FloatArray], width: float | None) -> AnyGrid:
    """Pieces by their bounds and the unit of the record, or intervals by their width."""
    if "bounds" in arrays:
        return Pieces(arrays["bounds"], width)
    ends = arrays.get("ends")
    return TimeGrid(edges, width, None if ends is None else ends.astype(np.int64))


def _network(architecture: AbstractArchitecture, facts: dict[str, Any], device: str) -> Network:
    return Network(
        architecture,
        facts["event_weight"],
        facts["slide_weight"],
        facts["precision"],
        _device=device,
    )
