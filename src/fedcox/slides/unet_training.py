"""How the U-Net is trained on pictures and masks of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedcox.errors import InputError, needs_extra
from fedcox.slides.mask_file import DAMAGED_PICTURE
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import Mask
from fedcox.slides.unet import UNet, as_batch

_BATCH = 4


def train_unet(
    images: Sequence[Pixels],
    masks: Sequence[Mask],
    *,
    steps: int = 500,
    crop: int = 128,
    depth: int = 3,
    width: int = 8,
    learning_rate: float = 3e-3,
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
        adam.step(slopes, learning_rate * (1 + np.cos(np.pi * step / steps)) / 2)
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
    try:
        from PIL import Image
    except ImportError as error:
        raise needs_extra("pillow", "slides") from error

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
