from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.plain_resnet import ResNet50
from fedcox.errors import WeightsError
from fedcox.slides.encoder import MEAN, SPREAD
from fedcox.slides.resnet import (
    PARAMETERS,
    fitting_weights,
    layout,
    read_weights,
    untrained_weights,
)
from fedcox.slides.resnet_encoder import FoldedResNet50
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")

Weights = dict[str, Tensor]


def torchvision_layout() -> dict[str, tuple[int, ...]]:
    """Written down from torchvision's documentation of resnet50: 320 names and their shapes."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)}

    def norm(name: str, width: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.{part}"] = (width,)
        shapes[f"{name}.num_batches_tracked"] = ()

    norm("bn1", 64)
    stages = [
        ("layer1", 3, 64, 64, 256),
        ("layer2", 4, 256, 128, 512),
        ("layer3", 6, 512, 256, 1024),
        ("layer4", 3, 1024, 512, 2048),
    ]
    for stage, blocks, before, narrow, wide in stages:
        for block in range(blocks):
            at = f"{stage}.{block}"
            inputs = before if block == 0 else wide
            shapes[f"{at}.conv1.weight"] = (narrow, inputs, 1, 1)
            norm(f"{at}.bn1", narrow)
            shapes[f"{at}.conv2.weight"] = (narrow, narrow, 3, 3)
            norm(f"{at}.bn2", narrow)
            shapes[f"{at}.conv3.weight"] = (wide, narrow, 1, 1)
            norm(f"{at}.bn3", wide)
            if block == 0:
                shapes[f"{at}.downsample.0.weight"] = (wide, inputs, 1, 1)
                norm(f"{at}.downsample.1", wide)
    return {**shapes, "fc.weight": (1000, 2048), "fc.bias": (1000,)}


def slow_resnet50(weights: Weights, x: Tensor) -> Tensor:
    """The same network from its description, operation by operation, in float64."""
    w = {name: tensor.double() for name, tensor in weights.items()}

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        gamma, beta = w[f"{name}.weight"], w[f"{name}.bias"]
        wide = (1, -1, 1, 1)
        standard = (x - mean.view(wide)) / (variance.view(wide) + 1e-5).sqrt()
        return gamma.view(wide) * standard + beta.view(wide)

    x = functional.conv2d(x.double(), w["conv1.weight"], stride=2, padding=3)
    x = functional.max_pool2d(norm(x, "bn1").clamp(min=0), 3, 2, 1)
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            passed = x
            if block == 0:
                passed = functional.conv2d(x, w[f"{at}.downsample.0.weight"], stride=stride)
                passed = norm(passed, f"{at}.downsample.1")
            y = norm(functional.conv2d(x, w[f"{at}.conv1.weight"]), f"{at}.bn1").clamp(min=0)
            y = functional.conv2d(y, w[f"{at}.conv2.weight"], stride=stride, padding=1)
            y = norm(y, f"{at}.bn2").clamp(min=0)
            y = norm(functional.conv2d(y, w[f"{at}.conv3.weight"]), f"{at}.bn3")
            x = (y + passed).clamp(min=0)
    return x.flatten(2).mean(2)


@pytest.fixture(scope="module")
def weights() -> Weights:
    """Weights whose batch norms do something."""
    drawn = untrained_weights(3)
    random = torch.Generator().manual_seed(0)
    for name, tensor in drawn.items():
        if tensor.ndim == 1:
            spread = torch.rand(tensor.shape, generator=random)
            if name.endswith(("running_mean", "bias")):
                drawn[name] = 0.4 * spread - 0.2
            else:
                drawn[name] = tensor * (0.7 + 0.6 * spread)
    return drawn


@pytest.fixture(scope="module")
def tiles() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (1, 34, 33, 3), np.uint8)


def normalised(tiles: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Tensor:
    x = (tiles / 255.0 - np.array(MEAN)) / np.array(SPREAD)
    return torch.from_numpy(x).permute(0, 3, 1, 2)


def network(weights: Weights) -> ResNet50:
    made = ResNet50().eval()
    made.load_state_dict(weights)
    return made


def test_names_and_shapes_are_torchvisions() -> None:
    torchvisions = torchvision_layout()
    assert len(torchvisions) == 320
    without_classifier = {
        k: shape for k, shape in torchvisions.items() if not k.startswith("fc.")
    }
    network = ResNet50()
    own = network.state_dict()
    assert list(own) == list(without_classifier) == list(layout())
    assert {name: tuple(one.shape) for name, one in own.items()} == without_classifier
    assert layout() == without_classifier
    assert sum(one.numel() for one in network.parameters()) == PARAMETERS == 23_508_032


def test_the_network_computes_what_its_description_says(
    weights: Weights, tiles: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
) -> None:
    x = normalised(tiles)
    with torch.inference_mode():
        own = network(weights).double()(x)
        slow = slow_resnet50(weights, x)
    assert own.shape == (1, 2048)
    assert float(slow.std()) > 0.05
    np.testing.assert_allclose(own.numpy(), slow.numpy(), rtol=1e-10, atol=1e-12)


def test_folding_batch_norms_and_colours_changes_nothing(
    weights: Weights, tiles: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
) -> None:
    folded = FoldedResNet50(weights, torch.device("cpu"), torch.float32)
    own = folded(torch.from_numpy(tiles))
    with torch.inference_mode():
        plain = network(weights).double()(normalised(tiles))
    assert own.dtype == torch.float32
    # Normalising inside the first convolution would be wrong near the border, by about 1.
    assert float((own - plain).abs().max()) < 1e-5 * float(plain.abs().max())


def test_untrained_features_are_near_one_and_tell_tiles_apart() -> None:
    folded = FoldedResNet50(untrained_weights(0), torch.device("cpu"), torch.float32)
    random = np.random.default_rng(1)
    noisy = random.integers(0, 256, (1, 64, 64, 3), np.uint8)
    colours = np.array([[226, 168, 198], [120, 78, 150], [255, 255, 255], [0, 0, 0]], np.uint8)
    flat = np.broadcast_to(colours[:, None, None], (4, 64, 64, 3))
    features = folded(torch.from_numpy(np.concatenate([noisy, flat])))
    assert 0.05 < float(features.mean()) < 5
    assert float(features.max()) < 100
    unit = functional.normalize(features - features.mean(0))
    between = unit @ unit.T - torch.eye(5)
    assert float(between.max()) < 0.9


def test_a_seed_names_the_same_weights_everywhere() -> None:
    first, other = untrained_weights(0), untrained_weights(1)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])
    # Drawn by numpy, whose normal numbers are the same on every machine.
    conv = np.random.default_rng(0).standard_normal((64, 3, 7, 7), dtype=np.float32)
    conv -= conv.mean(axis=(1, 2, 3), keepdims=True)
    expected = conv * np.sqrt(2 / 147)
    np.testing.assert_allclose(first["conv1.weight"], expected, rtol=1e-4, atol=1e-6)


class TestFiles:
    def test_a_file_with_a_classifier_fits(self, weights: Weights, tmp_path: Path) -> None:
        classifier = {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
        torch.save({**weights, **classifier}, tmp_path / "a.pth")
        read = read_weights(tmp_path / "a.pth")
        assert list(read.tensors) == list(layout())
        assert torch.equal(
            read.tensors["layer4.2.conv3.weight"], weights["layer4.2.conv3.weight"]
        )
        assert read.notes == ()

    def test_the_digest_is_of_the_numbers_not_of_the_file(
        self, weights: Weights, tmp_path: Path
    ) -> None:
        from safetensors.torch import save_file

        few = {name: one for name, one in weights.items() if "num_batches" not in name}
        save_file(weights, tmp_path / "new.safetensors")
        wrapped = {f"module.backbone.{name}": one for name, one in few.items()}
        head = {"module.head.weight": torch.zeros(3)}
        torch.save({"state_dict": {**wrapped, **head}, "epoch": 3}, tmp_path / "old.pth")
        old = read_weights(tmp_path / "old.pth")
        assert old.sha256 == read_weights(tmp_path / "new.safetensors").sha256
        assert old.notes[0] == "Names begin with module.backbone.; it was left out."
        assert old.notes[1] == "1 tensors outside module.backbone.* were not used."
        changed = {**weights, "bn1.bias": weights["bn1.bias"] + 1e-3}
        assert fitting_weights(changed).sha256 != old.sha256

    @pytest.mark.parametrize(
        ("spoil", "said"),
        [
            (lambda w: w.pop("bn1.bias"), "1 missing: bn1.bias."),
            (
                lambda w: [w.pop(name) for name in list(w) if name.startswith("layer4.")],
                "50 missing: layer4.0.conv1.weight, layer4.0.bn1.weight, "
                "layer4.0.bn1.bias and 47 more.",
            ),
            (
                lambda w: w.update({"bn1.bias": torch.zeros(3)}),
                "1 of another shape: bn1.bias (3,) instead of (64,).",
            ),
            (
                lambda w: w.update({"layer1.0.se.weight": torch.zeros(3)}),
                "1 not of this network: layer1.0.se.weight.",
            ),
            (
                lambda w: w.update({"bn1.bias": torch.full((64,), torch.nan)}),
                "1 not finite: bn1.bias.",
            ),
        ],
    )
    def test_what_does_not_fit_is_named(
        self, weights: Weights, spoil: Callable[[Weights], object], said: str
    ) -> None:
        spoilt = dict(weights)
        spoil(spoilt)
        with pytest.raises(WeightsError) as told:
            fitting_weights(spoilt)
        assert said in told.value.faults

    def test_what_is_no_weights_file_is_told(self, weights: Weights, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="There is no file"):
            read_weights(tmp_path / "none.pth")
        (tmp_path / "text.pth").write_text("hello")
        (tmp_path / "text.safetensors").write_text("hello")
        for name in ("text.pth", "text.safetensors"):
            with pytest.raises(WeightsError, match="that can be read"):
                read_weights(tmp_path / name)
        torch.save(torch.zeros(3), tmp_path / "tensor.pth")
        with pytest.raises(WeightsError, match="no named tensors"):
            read_weights(tmp_path / "tensor.pth")
        few = ("conv1.weight", "layer1.0.conv1.weight")
        two = {f"{net}.{name}": weights[name] for net in "qk" for name in few}
        torch.save(two, tmp_path / "two.pth")
        with pytest.raises(WeightsError, match=r"holds 2 networks: k\.\*, q\.\*"):
            read_weights(tmp_path / "two.pth")

    def test_a_file_that_would_run_code_is_not_read(self, tmp_path: Path) -> None:
        torch.save(nn.Linear(2, 3), tmp_path / "module.pth")
        with pytest.raises(WeightsError, match="no file of weights") as told:
            read_weights(tmp_path / "module.pth")
        assert "state_dict() alone" in told.value.faults[0]
