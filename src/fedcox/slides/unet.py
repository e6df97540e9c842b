"""A small U-Net that tells tissue from the rest (Ronneberger et al. 2015), and its training.

It has no normalisation, so that what it says of a pixel depends on that pixel's surroundings
alone: a slide in overlapping windows gives what the whole slide would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fedcox.errors import InputError, WeightsError, from_extra
from fedcox.files.writing import whole_file
from fedcox.slides.mask_file import DAMAGED_PICTURE
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import AbstractTissueFinder, Mask

SCHEMA = "fedcox-unet-1"
_WINDOW = 512
_BATCH = 4
_LEARNING_RATE = 3e-3


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
    mpp: float
    sha256: str = ""

    @property
    def settings(self) -> Mapping[str, str | float]:
        return {"method": "unet", "mask_mpp": self.mpp, "unet_sha256": self.sha256}

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
    tissue = np.empty((rows * window, columns * window), bool)
    side = window + 2 * reach
    with torch.inference_mode():
        for top in range(0, rows * window, window):
            for left in range(0, columns * window, window):
                piece = around[top : top + side, left : left + side]
                logit = network(as_batch(piece[None]))[0, reach:-reach, reach:-reach]
                tissue[top : top + window, left : left + window] = (logit > 0).numpy()
    return tissue[:height, :width]


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
            stored = opened.metadata() or {}
            weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        about = json.loads(stored[SCHEMA])
        network = UNet(int(about["depth"]), int(about["width"]))
        network.load_state_dict(weights)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise WeightsError(
            f"{file} does not hold a U-Net of this package.",
            ["Train one with: fedcox slides train-unet"],
        ) from error
    digest = sha256(file.read_bytes()).hexdigest()
    return UNetTissue(network.eval(), float(about["mpp"]), digest)


def train_unet(
    images: Sequence[Pixels],
    masks: Sequence[Mask],
    *,
    steps: int = 500,
    crop: int = 128,
    depth: int = 3,
    width: int = 8,
    seed: int = 0,
    watch: Callable[[int, float], None] = lambda step, loss: None,
) -> UNet:
    """Adam on the binary cross-entropy of random crops, flipped and turned at random.

    Each image is (height, width, 3), its mask (height, width). `crop` is a multiple of
    2**depth; where pictures are smaller, so is the crop. The same arguments give the same
    network on the same machine.
    """
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = UNet(depth, width)
    crop = min(crop, network.whole_steps(max(max(mask.shape) for mask in masks)))
    padded = [_padded(image, mask, crop) for image, mask in zip(images, masks, strict=True)]
    adam = _Adam(list(network.parameters()))
    for step in range(1, steps + 1):
        pictures, truth = _batch(padded, crop, rng)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(network(pictures), truth)
        slopes = torch.autograd.grad(loss, adam.parameters)
        # Half a cosine down to zero: the last steps settle.
        adam.step(slopes, _LEARNING_RATE * (1 + np.cos(np.pi * step / steps)) / 2)
        watch(step, float(loss.detach()))
    return network.eval()


class _Adam:
    """Kingma and Ba (2015); torch's own takes seconds to import, and this is all of it."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self._first = [torch.zeros_like(value) for value in parameters]
        self._second = [torch.zeros_like(value) for value in parameters]
        self._steps = 0

    @torch.no_grad()
    def step(self, slopes: Sequence[Tensor], rate: float) -> None:
        self._steps += 1
        rate *= np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for value, slope, first, second in zip(
            self.parameters, slopes, self._first, self._second, strict=True
        ):
            first.lerp_(slope, 0.1)
            second.lerp_(slope**2, 0.001)
            value.sub_(rate * first / (second.sqrt() + 1e-8))


def _padded(image: Pixels, mask: Mask, crop: int) -> tuple[Pixels, Mask]:
    """At least as large as a crop: white, without tissue, to the right and below."""
    more = [max(0, crop - side) for side in mask.shape]
    return (
        np.pad(image, ((0, more[0]), (0, more[1]), (0, 0)), constant_values=255),
        np.pad(mask, ((0, more[0]), (0, more[1]))),
    )


def _batch(
    padded: list[tuple[Pixels, Mask]], crop: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    pictures, truths = [], []
    for which in rng.integers(0, len(padded), _BATCH):
        image, mask = padded[which]
        top, left = (int(rng.integers(0, side - crop + 1)) for side in mask.shape)
        cut = np.s_[top : top + crop, left : left + crop]
        turns, flipped = int(rng.integers(0, 4)), bool(rng.integers(0, 2))
        picture, truth = np.rot90(image[cut], turns), np.rot90(mask[cut], turns)
        pictures.append(picture[::-1] if flipped else picture)
        truths.append(truth[::-1] if flipped else truth)
    return as_batch(np.stack(pictures)), torch.from_numpy(np.stack(truths)).float()


def read_pairs(images: Path, masks: Path) -> tuple[list[Pixels], list[Mask]]:
    """Pictures and masks of the same name in two folders; a mask is white where tissue is.

    InputError with every picture without a mask and every pair of unequal size.
    """
    with from_extra("pillow", "slides"):
        from PIL import Image

    drawn = {file.stem: file for file in sorted(_pictures(masks))}
    pictures: list[Pixels] = []
    truths: list[Mask] = []
    faults = []
    for file in sorted(_pictures(images)):
        if file.stem not in drawn:
            faults.append(f"{file.name} has no mask of that name.")
            continue
        try:
            picture = np.asarray(Image.open(file).convert("RGB"))
            truth = np.asarray(Image.open(drawn[file.stem]).convert("L")) > 127
        except (*DAMAGED_PICTURE, Image.DecompressionBombError):
            faults.append(f"{file.name} or its mask is not a picture that can be read.")
            continue
        if picture.shape[:2] != truth.shape:
            faults.append(f"{file.name} and its mask are not of the same size.")
        pictures.append(picture)
        truths.append(truth)
    if not pictures and not faults:
        faults.append("There is no PNG, JPEG or TIFF picture.")
    if faults:
        raise InputError(f"{images} and {masks} cannot be trained on.", faults)
    return pictures, truths


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder.", ["Needed is a folder of pictures."])
    endings = {".png", ".jpg", ".jpeg", ".tif", ".tiff"}
    return [file for file in folder.iterdir() if file.suffix.lower() in endings]
