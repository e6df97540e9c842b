from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.plain_resnet import ResNet50
from fedcox.errors import InputError, WeightsError
from fedcox.slides.encoder import (
    MEAN,
    SPREAD,
    AbstractEncoder,
    load_encoder,
    processor_precision,
    usual_readers,
)
from fedcox.slides.resnet import untrained_weights
from tests.slides.embedding_examples import TinyNetwork, write_onnx
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")

TILES = np.random.default_rng(5).integers(0, 256, (4, 64, 64, 3), np.uint8)
has_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def normalised(tiles: NDArray[np.uint8]) -> torch.Tensor:
    x = (tiles / 255.0 - np.array(MEAN)) / np.array(SPREAD)
    return torch.from_numpy(x).permute(0, 3, 1, 2).float()


@pytest.fixture(scope="module")
def plain() -> NDArray[np.float32]:
    network = ResNet50().eval()
    network.load_state_dict(untrained_weights(0))
    with torch.inference_mode():
        found: NDArray[np.float32] = network(normalised(TILES)).numpy()
    return found


@pytest.fixture(scope="module")
def encoders() -> dict[str, AbstractEncoder]:
    return {
        "float32": load_encoder(untrained=0, precision="float32"),
        "bfloat16": load_encoder(untrained=0, precision="bfloat16"),
    }


def test_resnet50_on_the_processor(
    encoders: dict[str, AbstractEncoder], plain: NDArray[np.float32]
) -> None:
    encoder = encoders["float32"]
    found = encoder.submit(TILES).features()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, plain, atol=1e-5 * np.abs(plain).max())
    assert encoder.name == "resnet50 (untrained, seed 0)"
    assert encoder.precision == "float32"
    assert len(encoder.sha256) == 64


def test_bfloat16_points_the_same_way(
    encoders: dict[str, AbstractEncoder], plain: NDArray[np.float32]
) -> None:
    encoder = encoders["bfloat16"]
    found = encoder.submit(TILES).features()
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(plain, axis=1)
    cosine = (found * plain).sum(axis=1) / norms
    assert cosine.min() > 0.999
    # The seed decides which network it is, not the numbers that it computes with.
    assert encoder.sha256 == encoders["float32"].sha256
    assert encoder.sha256 != load_encoder(untrained=1).sha256


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_tiles_beside_a_tile_do_not_matter_to_the_last_bit(
    precision: str, encoders: dict[str, AbstractEncoder]
) -> None:
    encoder = encoders[precision]
    whole = encoder.submit(TILES).features()
    alone = TILES.copy()
    alone[1:] = 0
    assert encoder.submit(alone).features()[0].tobytes() == whole[0].tobytes()
    assert encoder.submit(TILES).features().tobytes() == whole.tobytes()


def test_one_network_must_be_named() -> None:
    with pytest.raises(InputError, match="Which network"):
        load_encoder()
    with pytest.raises(InputError, match="Which network"):
        load_encoder(untrained=0, onnx="a.onnx")
    with pytest.raises(InputError, match="0 or more"):
        load_encoder(untrained=-1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_told() -> None:
    with pytest.raises(InputError, match="no CUDA device") as told:
        load_encoder(untrained=0, device="cuda")
    assert "--device cpu" in told.value.faults[0]


def test_the_usual_settings_fit_the_machine() -> None:
    flags = Path("/proc/cpuinfo")
    has_it = flags.exists() and "bf16" in flags.read_text()
    assert processor_precision() == ("bfloat16" if has_it else "float32")
    assert usual_readers("cpu") == 1


@has_cuda
def test_resnet50_on_cuda(plain: NDArray[np.float32]) -> None:
    encoder = load_encoder(untrained=0, device="cuda")
    memory = TILES[None].copy()
    with encoder.reads_from(memory):
        first, second = encoder.submit(memory[0]), encoder.submit(memory[0])
        found, again = first.features(), second.features()
    assert found.tobytes() == again.tobytes()
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(plain, axis=1)
    assert ((found * plain).sum(axis=1) / norms).min() > 0.999


class TestOnnx:
    @pytest.mark.parametrize("keep_map", [False, True])
    def test_it_computes_what_torch_does(self, keep_map: bool, tmp_path: Path) -> None:
        torch.manual_seed(0)
        network = TinyNetwork(keep_map=keep_map)
        write_onnx(tmp_path / "tiny.onnx", network)
        encoder = load_encoder(onnx=tmp_path / "tiny.onnx")
        with torch.inference_mode():
            expected = network(normalised(TILES)).flatten(1).numpy()
        found = encoder.submit(TILES).features()
        assert found.shape == (4, 5)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert encoder.name == "onnx tiny"

    def test_weights_beside_the_file_count_for_the_digest(self, tmp_path: Path) -> None:
        write_onnx(tmp_path / "tiny.onnx", TinyNetwork(keep_map=False))
        before = load_encoder(onnx=tmp_path / "tiny.onnx").sha256
        (tmp_path / "tiny.onnx.data").write_bytes(b"weights")
        assert load_encoder(onnx=tmp_path / "tiny.onnx").sha256 != before

    def test_what_does_not_fit_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="There is no file"):
            load_encoder(onnx=tmp_path / "none.onnx")
        (tmp_path / "text.onnx").write_text("hello")
        with pytest.raises(WeightsError, match="onnxruntime can run"):
            load_encoder(onnx=tmp_path / "text.onnx")
        write_onnx(tmp_path / "eight.onnx", TinyNetwork(keep_map=False), batch=8)
        with pytest.raises(
            WeightsError, match="takes 8 × 3 × h × w, not 4 × 3 × 64 × 64"
        ) as told:
            load_encoder(onnx=tmp_path / "eight.onnx").submit(TILES)
        assert "--batch" in told.value.faults[0]
