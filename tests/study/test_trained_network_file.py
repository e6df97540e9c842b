"""Trained networks on disk: the same bits, and nothing that does not fit."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from torch import nn

from fedcox.errors import WeightsError
from fedcox.models.architecture import (
    AbstractArchitecture,
    OwnModule,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
)
from fedcox.models.modules import start
from fedcox.study.trained_network_file import TrainedNetworkFile, network_bytes, read_network


def trained(architecture: AbstractArchitecture) -> TrainedNetworkFile:
    rng = np.random.default_rng(0)
    return TrainedNetworkFile(
        architecture,
        start(architecture, 1),
        rng.normal(size=5),
        np.arange(1.0, 6.0) * 30,
        {"scaling.mean": rng.normal(size=3)},
        {"link": "logit", "event_weight": 297.25, "reducer_sha256": None, "limits": [-1.5, 2]},
    )


@pytest.mark.parametrize(
    "architecture", [TileScorer(6, 4), TileScorerWithTable(6, 3, 4), Perceptron(3, (2,))]
)
def test_a_network_comes_back_bit_for_bit(
    architecture: AbstractArchitecture, tmp_path: Path
) -> None:
    network = trained(architecture)
    path = tmp_path / "network.safetensors"
    path.write_bytes(network_bytes(network))
    found = read_network(path)
    assert found.architecture == architecture
    assert found.facts == network.facts
    for name in ("theta", "alpha", "grid_edges"):
        assert getattr(found, name).tobytes() == getattr(network, name).tobytes()
    assert found.arrays["scaling.mean"].tobytes() == network.arrays["scaling.mean"].tobytes()


def test_an_own_module_is_named_and_must_be_given_to_read_it(tmp_path: Path) -> None:
    own = OwnModule("mine", "table", lambda: nn.Linear(3, 1))
    path = tmp_path / "network.safetensors"
    path.write_bytes(network_bytes(trained(own)))
    assert np.array_equal(read_network(path, own).theta, trained(own).theta)
    with pytest.raises(WeightsError, match="Give that module"):
        read_network(path)
    with pytest.raises(WeightsError, match="another one"):
        read_network(path, OwnModule("other", "table", lambda: nn.Linear(3, 1)))
    with pytest.raises(WeightsError, match=r"shape \(1, 3\)"):
        read_network(path, OwnModule("mine", "table", lambda: nn.Linear(4, 1)))


def test_another_architecture_than_asked_for_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    path.write_bytes(network_bytes(trained(TileScorer(6, 4))))
    with pytest.raises(WeightsError, match="was asked for"):
        read_network(path, TileScorer(6, 8))


def test_weights_of_another_size_are_not_written() -> None:
    network = trained(TileScorer(6, 4))
    wrong = TrainedNetworkFile(TileScorer(6, 8), network.theta, network.alpha, network.alpha)
    with pytest.raises(WeightsError):
        network_bytes(wrong)


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_file_cut_short_is_refused(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    path.write_bytes(network_bytes(trained(TileScorer(6, 4))))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(WeightsError, match="cut short"):
        read_network(path)


def test_missing_files_pickles_and_other_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    with pytest.raises(WeightsError, match="missing"):
        read_network(path)
    path.write_bytes(pickle.dumps({"theta": [1.0]}))
    with pytest.raises(WeightsError):
        read_network(path)
    save_file({"alpha": np.zeros(3)}, path)
    with pytest.raises(WeightsError, match="not of a trained fedcox network"):
        read_network(path)


def test_every_wrong_tensor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    tensors = {
        "network.hidden.weight": np.zeros((6, 4)),
        "network.hidden.bias": np.array([0.0, np.nan, 0.0, 0.0]),
        "network.gate.weight": np.zeros(1),
        "alpha": np.zeros(3, dtype=np.float32),
    }
    header = (
        '{"architecture": {"name": "tile scorer", "features": 6, "hidden": 4}, "facts": {}}'
    )
    save_file(tensors, path, {"format": "fedcox-network-1", "network": header})
    with pytest.raises(WeightsError) as caught:
        read_network(path)
    faults = "\n".join(caught.value.faults)
    for part in (
        "score.weight is missing",
        "grid_edges is missing",
        "hidden.weight has the shape",
        "hidden.bias holds numbers",
        "gate.weight is no part",
        "alpha is float32",
    ):
        assert part in faults


@pytest.mark.parametrize("header", ["{", "[]", "{}", '{"architecture": 3, "facts": {}}'])
def test_a_broken_header_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    metadata = {"format": "fedcox-network-1", "network": header}
    save_file({"alpha": np.zeros(1)}, path, metadata)
    with pytest.raises(WeightsError):
        read_network(path)
