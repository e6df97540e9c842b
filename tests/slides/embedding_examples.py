"""Small slides on disk with their tiles, and small encoders, for the tests of embedding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcox.slides.bag_file import BagFacts, write_bag
from fedcox.slides.encoder import AbstractEncoder, AbstractPending, Ready
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.simulated_slides import write_pyramid

MPP = 0.5


def write_slide(path: Path, seed: int, size: int = 512) -> None:
    """Patches of random colours: no two tiles are alike."""
    coarse = np.random.default_rng(seed).integers(0, 256, (size // 8, size // 8, 3), np.uint8)
    write_pyramid(path, coarse.repeat(8, axis=0).repeat(8, axis=1), MPP, levels=1)


def grid(tiles: int, side: int = 64, size: int = 512) -> NDArray[np.int32]:
    """Places of the first tiles, row by row."""
    y, x = np.divmod(np.arange(tiles, dtype=np.int32), size // side)
    return np.column_stack([x * side, y * side])


def tiled_slide(
    work: Path, slide_id: str, tiles: int, *, seed: int = 0, side: int = 64
) -> ManifestRow:
    """A slide in `work`, and its file of tiles, as `slides tile` would write it."""
    path = work / f"{slide_id}.tiff"
    work.mkdir(parents=True, exist_ok=True)
    write_slide(path, seed)
    facts = BagFacts(
        slide_id,
        "tiles",
        mpp=MPP,
        tile_px=side,
        tile_um=side * MPP,
        tile_px_level0=float(side),
        seed=0,
        n_tissue_tiles=tiles,
        settings={"step": "tile"},
    )
    write_bag(work / "tiles" / f"{slide_id}.h5", facts, grid(tiles, side))
    return ManifestRow(slide_id, f"patient of {slide_id}", "A", path)


class MeanColour(AbstractEncoder):
    """An encoder that a reader can check: the mean of each colour, times `scale`."""

    name, precision = "mean colour", "float32"

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = np.float32(scale)
        self.sha256 = f"{float(self._scale)}"
        self.batches: list[int] = []

    def submit(self, tiles: NDArray[np.uint8]) -> AbstractPending:
        self.batches.append(len(tiles))
        return Ready(self._scale * tiles.mean(axis=(1, 2), dtype=np.float32))


class TinyNetwork(nn.Module):
    """A convolution and a mean, with the last map of 1 × 1 kept or not."""

    def __init__(self, *, keep_map: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2)
        self.keep_map = keep_map

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.conv(x).relu().mean(dim=(2, 3), keepdim=self.keep_map)
        return found


def write_onnx(path: Path, network: TinyNetwork, batch: int | str = "tiles") -> None:
    """The network by ONNX's own helper: exporters of torch change from year to year."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    tensors = {name: one.detach().numpy() for name, one in network.conv.named_parameters()}
    nodes = [
        helper.make_node("Conv", ["x", "weight", "bias"], ["c"], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
    ]
    if not network.keep_map:
        nodes.append(helper.make_node("Flatten", ["p"], ["y"]))
    outputs = "p" if network.keep_map else "y"
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, "h", "w"])],
        [helper.make_tensor_value_info(outputs, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(one, name) for name, one in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
