"""A network in an ONNX file over tiles.

It takes (n, 3, height, width) float32, normalised by ImageNet's mean and spread, and gives
(n, features) or (n, features, 1, 1).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.errors import InputError, WeightsError, needs_extra
from fedcox.slides.encoder import (
    MEAN,
    SPREAD,
    AbstractEncoder,
    AbstractPending,
    Device,
    Features,
    Ready,
    Tiles,
)

if TYPE_CHECKING:
    import onnxruntime

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxEncoder(AbstractEncoder):
    """Any exported encoder, run by onnxruntime; its name is the file's."""

    def __init__(self, path: str | Path, device: Device = "cpu") -> None:
        path = Path(path)
        self._name = f"onnx {path.stem}"
        self._file = path.name
        self._session = _session(path, device)
        self._sha256 = _digest(path)
        self._input = _only_input(self._session, path.name)

    @property
    def name(self) -> str:
        return self._name

    @property
    def sha256(self) -> str:
        return self._sha256

    @property
    def precision(self) -> str:
        return "float32"

    def submit(self, tiles: Tiles) -> AbstractPending:
        normalised = (tiles.astype(np.float32) - _MEAN) / _SPREAD
        x = np.ascontiguousarray(normalised.transpose(0, 3, 1, 2))
        self._check_shape(x.shape)
        try:
            found = self._session.run(None, {self._input.name: x})[0]
        except Exception as error:  # onnxruntime has no base class of its own
            raise WeightsError(
                f"The network in {self._file} cannot encode {_times(x.shape)} tiles.",
                [str(error).splitlines()[0]],
            ) from error
        return Ready(_features(np.asarray(found), len(tiles), self._file))

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Names and None stand for any size."""
        wanted = tuple(self._input.shape)
        fits = len(wanted) == len(shape) and all(
            not isinstance(size, int) or size == own
            for size, own in zip(wanted, shape, strict=True)
        )
        if not fits:
            raise WeightsError(
                f"The network in {self._file} takes {_times(wanted)}, not {_times(shape)}.",
                ["Batches are tiles × 3 × height × width; say --batch, or tile anew."],
            )


_MEAN = np.float32(255) * np.asarray(MEAN, np.float32)
_SPREAD = np.float32(255) * np.asarray(SPREAD, np.float32)


def _session(path: Path, device: Device) -> onnxruntime.InferenceSession:
    try:
        import onnxruntime
    except ImportError as error:
        raise needs_extra("onnxruntime", "onnx") from error
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
        found = ", ".join(f"{one.name}: {one.type}" for one in inputs)
        raise WeightsError(
            f"The network in {file} takes {found}.",
            ["Needed is one input, tensor(float) of tiles × 3 × height × width."],
        )
    return inputs[0]


def _features(found: Any, tiles: int, file: str) -> Features:
    if found.ndim == 4 and found.shape[2:] == (1, 1):
        found = found[:, :, 0, 0]
    if found.ndim != 2 or len(found) != tiles:
        raise WeightsError(
            f"The network in {file} gives {_times(found.shape)} for {tiles} tiles.",
            ["Needed is tiles × features, or tiles × features × 1 × 1."],
        )
    return np.ascontiguousarray(found, np.float32)


def _times(shape: tuple[object, ...]) -> str:
    return " × ".join(str(size) for size in shape)
