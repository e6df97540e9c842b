"""Frozen networks that turn tiles into features: which there are, and how they are asked.

Batches always have the same size; the last of a slide is filled up with black tiles. So a
tile's features depend on the slide alone: not on which slides were done before, nor on how
many processes read them.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError, WeightsError, from_extra

if TYPE_CHECKING:
    import onnxruntime


Tiles: TypeAlias = NDArray[np.uint8]
"""(batch, tile_px, tile_px, 3), red, green, blue."""

Features: TypeAlias = NDArray[np.float32]
"""(batch, features)."""

#: Of ImageNet's photographs, red, green and blue, from 0 to 1; tiles are normalised by them.
MEAN = (0.485, 0.456, 0.406)
SPREAD = (0.229, 0.224, 0.225)

Device: TypeAlias = Literal["cpu", "cuda"]
Precision: TypeAlias = Literal["float32", "bfloat16"]
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_MEAN = np.float32(255) * np.asarray(MEAN, np.float32)
_SPREAD = np.float32(255) * np.asarray(SPREAD, np.float32)


class AbstractPending(ABC):
    """Features of a batch that was handed to an encoder."""

    @abstractmethod
    def features(self) -> Features:
        """Wait for them; from then on the batch's tiles may be overwritten."""


class Ready(AbstractPending):
    """Features that are there at once."""

    def __init__(self, features: Features) -> None:
        self._features = features

    def features(self) -> Features:
        return self._features


class AbstractEncoder(ABC):
    """A frozen network; `submit` may return before it has finished.

    Files of features have its `name`, the `sha256` of its weights, which is equal where the
    features may be used together, and the `precision` it computes with. `in_flight` is how many
    batches may be handed over before the first one's features are taken, in the order in which
    they came.
    """

    name: str
    sha256: str
    precision: str
    in_flight: int = 1
    notes: tuple[str, ...] = ()

    @abstractmethod
    def submit(self, tiles: Tiles) -> AbstractPending:
        """Hand over a batch; leave the tiles as they are until the features are there."""

    @contextmanager
    def reads_from(self, memory: Tiles) -> Iterator[None]:
        """Prepare memory that batches will lie in, for as long as the block lasts."""
        yield


def load_encoder(
    *,
    weights: str | Path | None = None,
    onnx: str | Path | None = None,
    untrained: int | None = None,
    device: Device = "cpu",
    precision: Precision | None = None,
) -> AbstractEncoder:
    """ResNet-50 with weights from a file or untrained by seed, or a network in an ONNX file.

    `precision` is bfloat16 on CUDA and on processors that compute with it, else float32,
    unless it is given; an ONNX file brings its own.
    """
    given = [one for one in (weights, onnx, untrained) if one is not None]
    if len(given) != 1:
        raise InputError(
            "Which network is to encode the tiles?",
            ["Give one of: a file of weights, an ONNX file, or a seed for an untrained one."],
        )
    if onnx is not None:
        return OnnxEncoder(onnx, device)
    with from_extra("torch", "slides"):
        import torch

        from fedcox.slides import resnet
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "torch finds no CUDA device here.", ["Say --device cpu, or install its driver."]
        )
    if weights is not None:
        checked = resnet.read_weights(weights)
    elif untrained is None or untrained < 0:
        raise InputError("The seed must be 0 or more.")
    else:
        checked = resnet.fitting_weights(resnet.untrained_weights(untrained))
    name = "resnet50" if untrained is None else f"resnet50 (untrained, seed {untrained})"
    if device == "cuda":
        from fedcox.slides.resnet_encoder import CudaResNetEncoder

        return CudaResNetEncoder(checked, name, precision or "bfloat16")
    from fedcox.slides.resnet_encoder import CpuResNetEncoder

    return CpuResNetEncoder(checked, name, precision or processor_precision())


def processor_precision() -> Precision:
    """bfloat16 where the processor multiplies it itself; else it is slower than float32."""
    try:
        processors = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "float32"
    flags = next(
        (line for line in processors.splitlines() if line.startswith("flags")), ""
    ).split()
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"


def usual_batch(device: Device) -> int:
    """Tiles at once that keep a device busy without much memory."""
    return 256 if device == "cuda" else 32


def usual_readers(device: Device) -> int:
    """Processes that read slides: a processor's own network takes the cores itself."""
    if device == "cpu":
        return 1
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return max(1, (len(cores) or os.cpu_count() or 1) - 1)


class OnnxEncoder(AbstractEncoder):
    """Any exported encoder in an ONNX file, run by onnxruntime; its name is the file's.

    It takes (n, 3, height, width) float32, normalised by ImageNet's mean and spread, and gives
    (n, features) or (n, features, 1, 1).
    """

    precision = "float32"

    def __init__(self, path: str | Path, device: Device = "cpu") -> None:
        path = Path(path)
        self.name = f"onnx {path.stem}"
        self._file = path.name
        self._session = _session(path, device)
        self.sha256 = _digest(path)
        self._input = _only_input(self._session, path.name)

    def submit(self, tiles: Tiles) -> AbstractPending:
        normalised = (tiles.astype(np.float32) - _MEAN) / _SPREAD
        x = np.ascontiguousarray(normalised.transpose(0, 3, 1, 2))
        self._check_shape(x.shape)
        try:
            features = self._session.run(None, {self._input.name: x})[0]
        except Exception as error:  # onnxruntime has no base class of its own
            raise WeightsError(
                f"The network in {self._file} cannot encode {_times(x.shape)} tiles.",
                [str(error).splitlines()[0]],
            ) from error
        return Ready(_features(np.asarray(features), len(tiles), self._file))

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Names and None stand for any size."""
        wanted = tuple(self._input.shape)
        fits = len(wanted) == len(shape) and all(
            not isinstance(size, int) or size == given
            for size, given in zip(wanted, shape, strict=True)
        )
        if not fits:
            raise WeightsError(
                f"The network in {self._file} takes {_times(wanted)}, not {_times(shape)}.",
                ["Batches are tiles × 3 × height × width; say --batch, or tile anew."],
            )


def _session(path: Path, device: Device) -> onnxruntime.InferenceSession:
    with from_extra("onnxruntime", "onnx"):
        import onnxruntime
    if not path.is_file():
        raise WeightsError(f"There is no file {path}.", ["Give an .onnx file."])
    provider = _PROVIDERS[device]
    if provider not in onnxruntime.get_available_providers():
        raise InputError(
            f"onnxruntime has no {provider} here.",
            ["Say --device cpu, or install onnxruntime-gpu."],
        )
    options = onnxruntime.SessionOptions()
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=[provider])
    except Exception as error:  # onnxruntime has no base class of its own
        raise WeightsError(
            f"{path} is no network that onnxruntime can run.", [str(error).splitlines()[0]]
        ) from error


def _digest(path: Path) -> str:
    """Of the file, and of the one beside it where exporters put large weights."""
    digest = hashlib.sha256(path.read_bytes())
    beside = path.with_name(f"{path.name}.data")
    if beside.is_file():
        digest.update(beside.read_bytes())
    return digest.hexdigest()


def _only_input(session: onnxruntime.InferenceSession, file: str) -> Any:
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        names = ", ".join(f"{one.name}: {one.type}" for one in inputs)
        raise WeightsError(
            f"The network in {file} takes {names}.",
            ["Needed is one input, tensor(float) of tiles × 3 × height × width."],
        )
    return inputs[0]


def _features(features: Any, tiles: int, file: str) -> Features:
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features[:, :, 0, 0]
    if features.ndim != 2 or len(features) != tiles:
        raise WeightsError(
            f"The network in {file} gives {_times(features.shape)} for {tiles} tiles.",
            ["Needed is tiles × features, or tiles × features × 1 × 1."],
        )
    return np.ascontiguousarray(features, np.float32)


def _times(shape: tuple[object, ...]) -> str:
    return " × ".join(str(size) for size in shape)
