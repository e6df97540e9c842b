"""A small U-Net that tells tissue from the rest (Ronneberger et al. 2015), and its file.

It has no normalisation, so that what it says of a pixel depends on that pixel's surroundings
alone: a slide in overlapping windows gives what the whole slide would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fedcox.errors import WeightsError
from fedcox.files.writing import whole_file
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import AbstractTissueFinder, Mask

SCHEMA = "fedcox-unet-1"
_WINDOW = 512


class UNet(nn.Module):
    """Logit of tissue for every pixel; `depth` times halved, `width` channels at the top.

    Takes (batch, 3, height, width) with sides that are multiples of 2**depth, values from 0
    to 1; gives (batch, height, width).
    """

    def __init__(self, depth: int = 3, width: int = 8) -> None:
        super().__init__()
        self.depth, self.width = depth, width
        wide = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _pair(before, after) for before, after in zip([3, *wide], wide, strict=False)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * channels, channels, 2, stride=2) for channels in wide[:-1]
        )
        self.join = nn.ModuleList(_pair(2 * channels, channels) for channels in wide[:-1])
        self.last = nn.Conv2d(width, 1, 1)
        # Without normalisation the start matters: signals keep their size through the layers.
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) and layer.bias is not None:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)

    def forward(self, pictures: Tensor) -> Tensor:
        """Logits."""
        # White is zero, as is what convolutions put around a picture.
        at, passed = 2 * (1 - pictures), []
        for level, down in enumerate(self.down):
            at = down(at if level == 0 else nn.functional.max_pool2d(at, 2))
            passed.append(at)
        for level in reversed(range(self.depth)):
            at = self.join[level](torch.cat([passed[level], self.up[level](at)], 1))
        return cast(Tensor, self.last(at)).squeeze(1)

    def whole_steps(self, pixels: int) -> int:
        """The next multiple of 2**depth."""
        return -(-pixels >> self.depth) << self.depth

    @property
    def reach(self) -> int:
        """How far a pixel's surroundings count at most, as a multiple of 2**depth."""
        # Two 3 × 3 convolutions on every level, down and up, and the halving in between.
        pixels = sum(5 << level for level in range(self.depth + 1)) + (1 << self.depth)
        return self.whole_steps(pixels)


def _pair(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1),
        nn.ReLU(),
    )


@dataclass(frozen=True, eq=False)
class UNetTissue(AbstractTissueFinder):
    """Tissue by a trained U-Net, at the resolution that it was trained at."""

    network: UNet
    um_per_px: float
    sha256: str = field(default="")

    @property
    def mpp(self) -> float:
        return self.um_per_px

    @property
    def settings(self) -> Mapping[str, str | float]:
        return {"method": "unet", "mask_mpp": self.um_per_px, "unet_sha256": self.sha256}

    def find(self, rgb: Pixels) -> Mask:
        return tissue_by_unet(rgb, self.network)


def tissue_by_unet(rgb: Pixels, network: UNet, *, window: int = _WINDOW) -> Mask:
    """True where the network finds tissue more likely than not.

    In windows of `window` pixels, a multiple of 2**depth, each with its surroundings; beyond
    the picture is white.
    """
    reach = network.reach
    height, width = rgb.shape[:2]
    window = min(window, network.whole_steps(max(height, width)))
    rows, columns = -(-height // window), -(-width // window)
    around = np.full(
        (rows * window + 2 * reach, columns * window + 2 * reach, 3), 255, np.uint8
    )
    around[reach : reach + height, reach : reach + width] = rgb
    found = np.empty((rows * window, columns * window), bool)
    side = window + 2 * reach
    with torch.inference_mode():
        for top in range(0, rows * window, window):
            for left in range(0, columns * window, window):
                piece = around[top : top + side, left : left + side]
                logit = network(as_batch(piece[None]))[0, reach:-reach, reach:-reach]
                found[top : top + window, left : left + window] = (logit > 0).numpy()
    return found[:height, :width]


def as_batch(pictures: Pixels) -> Tensor:
    """(batch, 3, height, width) from 0 to 1, of (batch, height, width, 3)."""
    return torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255


def write_unet(path: str | Path, network: UNet, mpp: float) -> None:
    """Weights, shape and resolution, in safetensors."""
    about = {"depth": network.depth, "width": network.width, "mpp": mpp}
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    content = save(weights, {SCHEMA: json.dumps(about, sort_keys=True)})
    with whole_file(path) as part:
        part.write_bytes(content)


def read_unet(path: str | Path) -> UNetTissue:
    """A network that `fedcox slides train-unet` wrote; WeightsError where it is none."""
    file = Path(path)
    try:
        with safe_open(file, "pt") as opened:
            told = opened.metadata() or {}
            weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        about = json.loads(told[SCHEMA])
        network = UNet(int(about["depth"]), int(about["width"]))
        network.load_state_dict(weights)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise WeightsError(
            f"{file} does not hold a U-Net of this package.",
            ["Train one with: fedcox slides train-unet"],
        ) from error
    digest = sha256(file.read_bytes()).hexdigest()
    return UNetTissue(network.eval(), float(about["mpp"]), digest)
