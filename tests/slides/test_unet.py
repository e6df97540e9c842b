"""The U-Net learns drawn tissue, is kept in a file, and sees windows as it sees the whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedcox.errors import InputError, WeightsError
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import Mask, OtsuTissue
from fedcox.slides.unet import (
    UNet,
    read_pairs,
    read_unet,
    tissue_by_unet,
    train_unet,
    write_unet,
)
from tests.slides.drawn import intersection_over_union


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def blobs(seed: int, size: int = 96) -> tuple[Pixels, Mask]:
    """Pink discs on glass, and a stripe of green ink, which Otsu takes for tissue."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size]
    mask = np.zeros((size, size), bool)
    for _ in range(3):
        at = rng.uniform(0.2 * size, 0.8 * size, 2)
        mask |= (x - at[0]) ** 2 + (y - at[1]) ** 2 < rng.uniform(10, 22) ** 2
    picture = np.full((size, size, 3), 243.0)
    picture[mask] = (205, 140, 180)
    start = int(rng.integers(0, size - 12))
    ink = (slice(start, start + 12), slice(None))
    picture[ink] = (40, 160, 60)
    mask[ink] = False
    noisy = picture + rng.normal(0, 6, picture.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), mask


def test_it_learns_drawn_tissue_and_leaves_ink_out(tmp_path: Path) -> None:
    pictures, masks = zip(*(blobs(seed) for seed in range(6)), strict=True)
    network = train_unet(pictures, masks, steps=80, crop=48, depth=2, width=6, seed=1)
    unseen, truth = blobs(100)
    assert intersection_over_union(tissue_by_unet(unseen, network, window=96), truth) > 0.9
    assert intersection_over_union(OtsuTissue().find(unseen), truth) < 0.9
    write_unet(tmp_path / "unet.safetensors", network, 8.0)
    kept = read_unet(tmp_path / "unet.safetensors")
    assert kept.mpp == 8.0
    np.testing.assert_array_equal(kept.find(unseen), tissue_by_unet(unseen, network))
    assert kept.settings["unet_sha256"] == kept.sha256 != ""


def test_the_same_seed_trains_the_same_network() -> None:
    pictures, masks = zip(*(blobs(seed, 40) for seed in range(2)), strict=True)
    state = torch.random.get_rng_state()
    first, second = (
        train_unet(pictures, masks, steps=3, crop=32, depth=1, width=2, seed=5) for _ in "ab"
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_windows_give_what_the_whole_picture_gives() -> None:
    torch.manual_seed(0)
    network = UNet(depth=2, width=3).eval()
    picture = np.random.default_rng(0).integers(0, 256, (150, 201, 3), dtype=np.uint8)
    whole = tissue_by_unet(picture, network, window=256)
    pieces = tissue_by_unet(picture, network, window=32)
    # Rounding may differ where the logit is next to zero.
    assert (whole != pieces).mean() < 1e-3
    assert 0.01 < whole.mean() < 0.99


def test_a_file_that_is_no_unet_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    with pytest.raises(WeightsError, match="train-unet"):
        read_unet(file)
    file.write_bytes(b"nonsense")
    with pytest.raises(WeightsError, match="does not hold a U-Net"):
        read_unet(file)


def test_every_picture_needs_its_mask_of_the_same_size(tmp_path: Path) -> None:
    images, masks = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    masks.mkdir()
    with pytest.raises(InputError, match="There is no PNG"):
        read_pairs(images, masks)
    (images / "d.png").write_text("no picture")
    Image.new("L", (8, 8)).save(masks / "d.png")
    for name, size in (("a", 8), ("b", 8), ("c", 8)):
        Image.new("RGB", (size, size)).save(images / f"{name}.png")
    Image.new("L", (8, 8), 255).save(masks / "a.png")
    Image.new("L", (9, 8)).save(masks / "b.png")
    with pytest.raises(InputError) as raised:
        read_pairs(images, masks)
    assert [fault.split()[0] for fault in raised.value.faults] == ["b.png", "c.png", "d.png"]
    (images / "b.png").unlink()
    (images / "d.png").unlink()
    (images / "c.png").unlink()
    pictures, truths = read_pairs(images, masks)
    assert pictures[0].shape == (8, 8, 3)
    assert truths[0].all()
