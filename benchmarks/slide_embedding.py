"""`python -m benchmarks.slide_embedding`: tiles per second, from slides on disk to features.

Measured in one run on one machine: plain PyTorch, ours, the readers alone, and all of it
together. Slides are simulated and weights random; neither matters to the time. Needs torch,
h5py, openslide, pillow and tifffile, and nothing else of fedcox's own packages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.plain_resnet import ResNet50
from fedcox.errors import SlideError
from fedcox.files.writing import whole_file
from fedcox.slides.bag_file import BagFacts, write_bag
from fedcox.slides.embedding import embed_slides, tiles_of
from fedcox.slides.encoder import (
    MEAN,
    SPREAD,
    Device,
    Precision,
    load_encoder,
    processor_precision,
    usual_readers,
)
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.reader_process import TileSource
from fedcox.slides.readers import SlideTiles, TileReaders, UnreadableSlide
from fedcox.slides.resnet import untrained_weights
from fedcox.slides.resnet_encoder import FoldedResNet50
from fedcox.slides.simulated_slides import write_pyramid
from fedcox.slides.simulated_tissue import draw_slide
from fedcox.slides.step import StepProgress

RESULT = Path(__file__).parent / "results" / "slide_embedding.json"
MPP = 0.5
SEED = 0
#: What the project asks of itself on a GPU: ours over plain, the whole over its slower half.
FASTER_THAN_PLAIN, SHARE_OF_SLOWER = 1.3, 0.8


@dataclass(frozen=True)
class Sizes:
    """How much is measured: slides are `side` × 2·`side` pixels of level 0."""

    batch: int
    tile_px: int
    slides: int
    side: int
    repeats: int


FULL = Sizes(batch=256, tile_px=224, slides=24, side=8192, repeats=30)
TINY = Sizes(batch=16, tile_px=64, slides=3, side=512, repeats=2)


@dataclass(frozen=True)
class EmbeddingSpeed:
    """Tiles per second. `start_seconds` pass in the whole before its first batch is done.

    `least_cosine` is between a tile's features by ours and by plain PyTorch in float32.
    """

    machine: str
    device: str
    torch: str
    precision: str
    readers: int
    sizes: Sizes
    tiles: int
    plain: float
    ours: float
    readers_alone: float
    whole: float
    start_seconds: float
    least_cosine: float

    @property
    def times_plain(self) -> float:
        return self.ours / self.plain

    @property
    def share_of_slower(self) -> float:
        return self.whole / min(self.ours, self.readers_alone)


def measure(device: Device, sizes: Sizes, readers: int, folder: Path) -> EmbeddingSpeed:
    """Everything, one after the other."""
    weights = untrained_weights(SEED)
    precision: Precision = "bfloat16" if device == "cuda" else processor_precision()
    dtype = getattr(torch, precision)
    tiles = np.random.default_rng(SEED).integers(
        0, 256, (sizes.batch, sizes.tile_px, sizes.tile_px, 3), np.uint8
    )
    plain = _plain_speed(device, dtype, tiles, sizes)
    folded = FoldedResNet50(weights, torch.device(device), dtype)
    ours = _our_speed(folded, tiles, sizes)
    slides = list(_slides(folder, sizes))
    alone = _readers_speed(slides, folder, sizes, readers)
    whole, start = _whole_speed(slides, folder, device, sizes, readers)
    return EmbeddingSpeed(
        machine=_machine(device),
        device=device,
        torch=torch.__version__,
        precision=precision,
        readers=readers,
        sizes=sizes,
        tiles=sum(len(tiles_of(slide, folder).coords) for slide in slides),
        plain=plain,
        ours=ours,
        readers_alone=alone,
        whole=whole,
        start_seconds=start,
        least_cosine=_least_cosine(folded, tiles[:16]),
    )


def _plain_speed(
    device: Device, dtype: torch.dtype, tiles: NDArray[np.uint8], sizes: Sizes
) -> float:
    """ResNet-50 as a module with its batch norms, channels last, tiles normalised."""
    network = ResNet50().eval()
    network.load_state_dict(untrained_weights(SEED))
    network = network.to(device, dtype)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = _normalised(tiles).to(device, dtype, memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    try:
        with torch.inference_mode():
            return _speed(lambda: network(x), device, sizes)
    finally:
        torch.backends.cudnn.benchmark = False


def _our_speed(folded: FoldedResNet50, tiles: NDArray[np.uint8], sizes: Sizes) -> float:
    """From 8-bit colours on the device to features there, as `embed` computes them."""
    x = torch.from_numpy(tiles).to(folded.device)
    if folded.device.type == "cpu":
        return _speed(lambda: folded(x), "cpu", sizes)
    from fedcox.slides.resnet_encoder import GraphedNetwork

    torch.backends.cudnn.deterministic = True
    graphed = GraphedNetwork(folded, tuple(x.shape))
    graphed.tiles.copy_(x)
    return _speed(graphed.run, "cuda", sizes)


def _speed(compute: Callable[[], object], device: Device, sizes: Sizes) -> float:
    """Tiles per second over all repeats, after some that do not count; the best of three."""
    for _ in range(max(1, sizes.repeats // 3)):
        compute()
    best = float("inf")
    for _ in range(3):
        _wait(device)
        begun = time.perf_counter()
        for _ in range(sizes.repeats):
            compute()
        _wait(device)
        best = min(best, time.perf_counter() - begun)
    return sizes.batch * sizes.repeats / best


def _wait(device: Device) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _slides(folder: Path, sizes: Sizes) -> Iterator[ManifestRow]:
    """One picture under many names: to its readers each file is another slide."""
    patch = _tissue()
    times = sizes.side // len(patch)
    first = folder / "0.tiff"
    write_pyramid(first, np.tile(patch, (times, 2 * times, 1)), MPP, description="simulated")
    x, y = np.meshgrid(
        np.arange(0, 2 * sizes.side - sizes.tile_px + 1, sizes.tile_px),
        np.arange(0, sizes.side - sizes.tile_px + 1, sizes.tile_px),
    )
    coords = np.column_stack([x.ravel(), y.ravel()])
    for number in range(sizes.slides):
        path = folder / f"{number}.tiff"
        if path != first:
            shutil.copyfile(first, path)
        facts = BagFacts(
            str(number),
            "tiles",
            mpp=MPP,
            tile_px=sizes.tile_px,
            tile_um=sizes.tile_px * MPP,
            tile_px_level0=float(sizes.tile_px),
        )
        write_bag(folder / "tiles" / f"{number}.h5", facts, coords)
        yield ManifestRow(str(number), str(number), "simulated", path)


def _tissue() -> NDArray[np.uint8]:
    """512 pixels square with as little glass as can be found."""
    drawn = draw_slide(2048, MPP, 0.3, rng=np.random.default_rng(SEED))
    share = drawn.tissue.pixels.reshape(4, 512, 4, 512).mean(axis=(1, 3))
    row, column = divmod(int(share.argmax()), 4)
    return drawn.pixels[512 * row :][:512, 512 * column :][:, :512]


def _readers_speed(
    slides: list[ManifestRow], folder: Path, sizes: Sizes, readers: int
) -> float:
    """From the first batch that is there to the last one."""
    tiled = [(slide, tiles_of(slide, folder)) for slide in slides]
    wanted = [
        SlideTiles(
            slide.slide_id, TileSource(str(slide.path), MPP, at.tile_px, at.mpp), at.coords
        )
        for slide, at in tiled
    ]
    times, done = [], 0
    with TileReaders(readers, sizes.batch, sizes.tile_px, held=1) as tile_readers:
        for found in tile_readers.batches(wanted):
            if isinstance(found, UnreadableSlide):
                raise SlideError(found.reason)
            tile_readers.give_back(found)
            times.append(time.perf_counter())
            done += found.count if len(times) > 1 else 0
    return done / (times[-1] - times[0])


def _whole_speed(
    slides: list[ManifestRow], folder: Path, device: Device, sizes: Sizes, readers: int
) -> tuple[float, float]:
    """From the first batch's features to the last file in its place; and what is before."""
    encoder = load_encoder(untrained=SEED, device=device)
    seen: list[tuple[float, int]] = []

    def watch(at: StepProgress) -> None:
        seen.append((time.perf_counter(), at.tiles))

    begun = time.perf_counter()
    outcome = embed_slides(
        slides, folder, encoder, batch=sizes.batch, readers=readers, watch=watch
    )
    if outcome.failed:
        raise SlideError(next(iter(outcome.failed.values())))
    first, tiles_at_first = next(moment for moment in seen if moment[1])
    last, tiles_at_last = seen[-1]
    return (tiles_at_last - tiles_at_first) / (last - first), first - begun


def _least_cosine(folded: FoldedResNet50, tiles: NDArray[np.uint8]) -> float:
    network = ResNet50().eval()
    network.load_state_dict(untrained_weights(SEED))
    with torch.inference_mode():
        plain = network(_normalised(tiles))
        own = folded(torch.from_numpy(tiles).to(folded.device)).cpu()
    return float(torch.nn.functional.cosine_similarity(plain, own).min())


def _normalised(tiles: NDArray[np.uint8]) -> torch.Tensor:
    x = torch.from_numpy(tiles).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(SPREAD).view(1, 3, 1, 1)


def _machine(device: Device) -> str:
    cores = f"{os.cpu_count()} cores"
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, {cores}"
    return f"{platform.processor() or platform.machine()}, {cores}"


def text(found: EmbeddingSpeed) -> str:
    """The figures as lines."""
    sizes = found.sizes
    plain = f"plain PyTorch, {found.precision}, channels last, batch {sizes.batch}"
    return "\n".join(
        [
            f"{found.machine}, torch {found.torch}; {sizes.tile_px} px tiles, simulated slides",
            f"{found.plain:12,.0f} tiles/s  {plain}",
            f"{found.ours:12,.0f} tiles/s  ours, on tiles on the device",
            f"{found.readers_alone:12,.0f} tiles/s  {found.readers} readers alone, from disk",
            f"{found.whole:12,.0f} tiles/s  the whole, {found.tiles:,} tiles in {sizes.slides} "
            f"slides, after {found.start_seconds:.1f} s to start",
            f"ours / plain: {found.times_plain:.2f} (on a GPU at least {FASTER_THAN_PLAIN})",
            f"the whole / the slower of ours and readers: {found.share_of_slower:.2f} "
            f"(on a GPU at least {SHARE_OF_SLOWER})",
            f"least cosine of a tile's features to float32: {found.least_cosine:.6f}",
        ]
    )


def main(words: list[str] | None = None) -> None:
    """Measure, print, and keep where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual: Literal["cuda", "cpu"] = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=usual)
    parser.add_argument("--batch", type=int, help="tiles at once")
    parser.add_argument("--readers", type=int, help="reader processes")
    parser.add_argument("--keep", action="store_true", help=f"store as {RESULT.name}")
    given = parser.parse_args(words)
    full = FULL if given.device == "cuda" else TINY
    sizes = Sizes(**{**asdict(full), **({"batch": given.batch} if given.batch else {})})
    readers = usual_readers(given.device) if given.readers is None else given.readers
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.device, sizes, readers, Path(folder))
    print(text(found))
    if given.keep:
        kept = {
            **asdict(found),
            "times_plain": found.times_plain,
            "share_of_slower": found.share_of_slower,
            "python": sys.version.split()[0],
        }
        with whole_file(RESULT) as part:
            part.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
