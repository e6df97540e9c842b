"""A trained network on disk: one safetensors file, which no code is run to read.

It holds the weights under the module's own names, the baseline α, the edges of the time grid,
arrays of the study (`extra.…`), and facts about the training as JSON in its header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import InputError, WeightsError, needs_extra
from fedcox.federation.setting import Setting
from fedcox.files.writing import write_atomically
from fedcox.models.architecture import (
    AbstractArchitecture,
    OwnModule,
    architecture_from_json,
)
from fedcox.models.modules import check_theta, pieces, split
from fedcox.models.predictors.network import Network
from fedcox.study.fit_rows import versions
from fedcox.study.trained_network import TrainedNetwork
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

_FORMAT = "fedcox-network-1"
_WEIGHT, _EXTRA = "network.", "extra."
_ALPHA, _EDGES = "alpha", "grid_edges"


_OWN = ("link", "reading", "width", "slope", "event_weight", "slide_weight", "precision")


@dataclass(frozen=True, eq=False)
class TrainedNetworkFile:
    """What is kept of a training: enough to score patients and to draw their curves.

    `facts` are JSON values, such as the link, the event weight, the digest of the reducer, and
    centre and limits of the training cohort's tile scores.
    """

    architecture: AbstractArchitecture
    theta: FloatArray
    alpha: FloatArray
    grid_edges: FloatArray
    arrays: Mapping[str, FloatArray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def network_bytes(network: TrainedNetworkFile) -> bytes:
    """The whole content of the file; the numbers are kept bit for bit."""
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise needs_extra("safetensors", "deep") from error
    check_theta(network.architecture, network.theta)
    tensors = {
        **{_WEIGHT + name: piece for name, piece in split(network.architecture, network.theta)},
        _ALPHA: network.alpha,
        _EDGES: network.grid_edges,
        **{_EXTRA + name: array for name, array in network.arrays.items()},
    }
    header = {"architecture": _described(network.architecture), "facts": dict(network.facts)}
    content: bytes = save(
        {name: np.ascontiguousarray(own, dtype=np.float64) for name, own in tensors.items()},
        metadata={"format": _FORMAT, "network": json.dumps(header, allow_nan=False)},
    )
    return content


def read_network(
    path: str | Path, architecture: AbstractArchitecture | None = None
) -> TrainedNetworkFile:
    """Read a trained network; for an own module, say which `architecture` it is.

    Anything that is not such a file, or does not fit the architecture, is a WeightsError.
    """
    header, tensors = _contents(Path(path))
    subject = f"{path} is not a network that can be used."
    try:
        described, facts = header["architecture"], dict(header["facts"])
        found = _architecture(described, architecture)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(subject, [f"Its header is incomplete: {error!r}."]) from error
    wanted = {_WEIGHT + name: shape for name, shape in pieces(found)}
    faults = _faults(wanted, tensors)
    if faults:
        raise WeightsError(subject, faults)
    weights = [tensors[name].reshape(-1) for name in wanted]
    extra = {name: own for name, own in tensors.items() if name.startswith(_EXTRA)}
    return TrainedNetworkFile(
        found,
        np.concatenate(weights),
        tensors[_ALPHA],
        tensors[_EDGES],
        {name.removeprefix(_EXTRA): own for name, own in extra.items()},
        facts,
    )


def _described(architecture: AbstractArchitecture) -> dict[str, Any]:
    if isinstance(architecture, OwnModule):
        return {"own": architecture.name, "inputs": architecture.inputs}
    return architecture.to_json()


def _architecture(
    described: Mapping[str, Any], given: AbstractArchitecture | None
) -> AbstractArchitecture:
    if "own" in described:
        if given is None:
            raise WeightsError(
                f"This network is the module {described['own']!r} of someone's own code.",
                ["Give that module as `architecture` when you read the file."],
            )
        if _described(given) != dict(described):
            raise WeightsError(
                f"This network is the module {described['own']!r}; another one was given."
            )
        return given
    found = architecture_from_json(described)
    if given is not None and given != found:
        raise WeightsError(f"The file holds {found}; {given} was asked for.")
    return found


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise needs_extra("safetensors", "deep") from error
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"Cannot read {path}: it is missing, cut short, or no safetensors file.",
            [str(error)],
        ) from error
    if about.get("format") != _FORMAT:
        raise WeightsError(
            f"{path} is a safetensors file, but not of a trained fedcox network.",
            [f"Its format is {about.get('format')!r}; {_FORMAT!r} is needed."],
        )
    try:
        return json.loads(about["network"]), tensors
    except (KeyError, ValueError) as error:
        raise WeightsError(f"The header of {path} cannot be read.", [str(error)]) from error


def _faults(
    wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, FloatArray]
) -> list[str]:
    faults = [
        f"{name} is missing." for name in (*wanted, _ALPHA, _EDGES) if name not in tensors
    ]
    for name, array in tensors.items():
        shape = wanted.get(name)
        if name.startswith(_WEIGHT) and shape is None:
            faults.append(f"{name} is no part of this network.")
        elif shape is not None and array.shape != shape:
            faults.append(f"{name} has the shape {array.shape}; {shape} is needed.")
        if array.dtype != np.float64:
            faults.append(f"{name} is {array.dtype}; float64 is needed.")
        elif not np.isfinite(array).all():
            faults.append(f"{name} holds numbers that are not finite.")
    return faults


def write_trained(path: str | Path, trained: TrainedNetwork) -> None:
    """Write the network as one safetensors file, whole or not at all."""
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
