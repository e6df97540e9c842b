"""Training the paper's slide model: its stacked rows beside phi once per slide.

Simulated bags of 8000 tiles × 256 features, 256 → 128 → 1, Adam. A stacked row is a slide in
one interval; a slide has as many as in TCGA's breast cancers at 30 days. Few rows and slides
are timed, and scaled to one pass over one slide. On a GPU the slides are all resident.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, leaky_relu

from benchmarks.machine import describe_machine
from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import EpochBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.models.architecture import TileScorer
from fedcox.models.predictors.network import Network, Precision
from fedcox.solvers.training import check_finite
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.descent import AdamDescent
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid

TILES, FEATURES, HIDDEN, SLOPE = 8000, 256, 128, 0.1
INTERVALS = 82  # with follow-up uniform over them, 41.5 stacked rows per slide
RESULTS = Path(__file__).parent / "results"

STACKED = "stacked rows, Conv1d"


@dataclass(frozen=True)
class Timing:
    """One way of training, per slide and pass over it."""

    contender: str
    device: str
    threads: int
    batch: int  # slides in a step
    microseconds: float
    cpu_microseconds: float


@dataclass(frozen=True, eq=False)
class Sizes:
    """How much is timed."""

    slides: int
    batch: int  # slides in a step
    rows: int  # stacked rows in a step
    steps: int
    repeats: int
    tiles: int = TILES


class Convolutions(nn.Module):
    """The paper's: two 1×1 convolutions over (slides, features, tiles), averaged over tiles."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(FEATURES, HIDDEN, 1), nn.Conv1d(HIDDEN, 1, 1)
        self.alpha = nn.Parameter(torch.zeros(INTERVALS))

    def forward(self, tiles: Tensor) -> Tensor:
        units = leaky_relu(self.first(tiles.transpose(1, 2)), SLOPE)
        score: Tensor = self.second(units).mean((1, 2))
        return score


class Layers(nn.Module):
    """The same as linear layers over (slides, tiles, features)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, 1)
        self.alpha = nn.Parameter(torch.zeros(INTERVALS))

    def forward(self, tiles: Tensor) -> Tensor:
        score: Tensor = self.second(leaky_relu(self.first(tiles), SLOPE)).mean((1, 2))
        return score


@dataclass(frozen=True, eq=False)
class Slides:
    """Simulated slides in both forms, and in how many intervals each is at risk."""

    tiles: Tensor  # (slides, tiles, features) float32, on the device
    cohort: Cohort
    intervals: IntArray
    event: Tensor  # (slides,) float32, on the device

    @classmethod
    def simulated(cls, sizes: Sizes, device: str) -> Slides:
        generator = torch.Generator().manual_seed(0)
        rng = np.random.default_rng(0)
        shape = sizes.slides, sizes.tiles, FEATURES
        stored = torch.randn(shape, generator=generator, dtype=torch.float32).half()
        intervals = rng.integers(1, INTERVALS + 1, sizes.slides)
        event = rng.random(sizes.slides) < 0.3
        bags = tuple((SlideArray(own.numpy()),) for own in stored)
        time_of = intervals.astype(np.float64)
        return cls(
            stored.to(device).float(),
            Cohort(np.empty((sizes.slides, 0)), time_of, event, bags=Bags(bags, FEATURES)),
            intervals,
            torch.tensor(event, dtype=torch.float32, device=device),
        )


Step = Callable[[], None]


def stacked_step(slides: Slides, module: nn.Module, sizes: Sizes) -> Step:
    """Rows of the stack, gathered at random; phi of a slide is computed for every row of it."""
    rng = np.random.default_rng(1)
    patient = np.repeat(np.arange(slides.intervals.size), slides.intervals)
    interval = np.concatenate([np.arange(last) for last in slides.intervals])
    optimiser = torch.optim.Adam(module.parameters(), 1e-3)
    device = slides.tiles.device

    def step() -> None:
        drawn = rng.integers(patient.size, size=sizes.rows)
        own = torch.tensor(patient[drawn], device=device)
        at = torch.tensor(interval[drawn], device=device)
        last = torch.tensor(slides.intervals[patient[drawn]] - 1, device=device)
        optimiser.zero_grad(set_to_none=True)
        z = module(slides.tiles[own]) + module.alpha[at]  # type: ignore[index]
        happened = slides.event[own] * (at == last)
        torch.autograd.backward(binary_cross_entropy_with_logits(z, happened, reduction="sum"))
        optimiser.step()

    return step


def plain_step(slides: Slides, module: nn.Module, sizes: Sizes, coarse: bool = False) -> Step:
    """Compute phi once per slide by autograd, as one writes it: a gathered batch and a mask."""
    rng = np.random.default_rng(1)
    optimiser = torch.optim.Adam(module.parameters(), 1e-3)
    device = slides.tiles.device
    tiles = slides.tiles.bfloat16() if coarse else slides.tiles
    last = torch.tensor(slides.intervals - 1, device=device)[:, None]
    interval = torch.arange(INTERVALS, device=device)

    def step() -> None:
        own = torch.tensor(rng.permutation(slides.intervals.size)[: sizes.batch], device=device)
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=coarse):
            phi = module(tiles[own])
        z = phi.float()[:, None] + module.alpha
        happened = slides.event[own][:, None] * (interval == last[own])
        costs = binary_cross_entropy_with_logits(z, happened, reduction="none")
        torch.autograd.backward((costs * (interval <= last[own])).sum())
        optimiser.step()

    return step


def own_step(slides: Slides, precision: Precision, sizes: Sizes) -> Step:
    """fedcox: a round of a federation with one center, and a step of Adam, as it trains."""
    setting = Setting(
        TimeGrid.regular(1.0, float(INTERVALS)),
        np.ones(INTERVALS, dtype=np.bool_),
        "include",
        LINKS["logit"],
        Scaling.none(0),
        predictor=Network(
            TileScorer(FEATURES, HIDDEN, SLOPE),
            precision=precision,
            _device=slides.tiles.device.type,
        ),
    )
    federation = InProcess.from_cohorts({"all": slides.cohort})
    patients = slides.cohort.patients
    point = np.concatenate([np.zeros(INTERVALS), setting.start()])
    adam, gradient = AdamDescent(point.size), np.empty_like(point)
    steps = count()

    def step() -> None:
        epoch, index = divmod(next(steps), patients // sizes.batch)
        batch = EpochBatch(0, epoch, index, sizes.batch, patients)
        here = point.copy()
        found = federation.ask(
            DerivativesAt(setting, here[:INTERVALS], here[INTERVALS:], Detail.GRADIENT, batch)
        )
        np.divide(found.alpha, sizes.batch, out=gradient[:INTERVALS])
        np.divide(found.beta, sizes.batch, out=gradient[INTERVALS:])
        check_finite(found.loss + float(gradient.sum()), epoch)
        adam.step(point, gradient, 1e-3)

    return step


def timed(step: Step, sizes: Sizes, device: str) -> tuple[float, float]:
    """Wall and CPU seconds of a step: the cheapest of the repeats, after one that warms up."""
    costs = []
    for repeat in range(sizes.repeats + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(sizes.steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if repeat:
            costs.append((wall / sizes.steps, cpu / sizes.steps))
    return min(wall for wall, _ in costs), min(cpu for _, cpu in costs)


def contenders(slides: Slides, sizes: Sizes, device: str) -> Iterator[tuple[str, float, Step]]:
    """Name, slides that a step is worth, and the step; each made when its turn comes."""
    rows_of_slide = float(slides.intervals.mean())
    tf32(False)
    yield (
        f"{STACKED} float32",
        sizes.rows / rows_of_slide,
        stacked_step(slides, Convolutions().to(device), sizes),
    )
    batch = float(sizes.batch)
    yield (
        "phi once, Conv1d float32",
        batch,
        plain_step(slides, Convolutions().to(device), sizes),
    )
    if device == "cuda":
        tf32(True)
    name = "tf32" if device == "cuda" else "float32"
    yield f"phi once, Linear {name}", batch, plain_step(slides, Layers().to(device), sizes)
    yield (
        "phi once, Linear autocast bfloat16",
        batch,
        plain_step(slides, Layers().to(device), sizes, coarse=True),
    )
    tf32(False)
    yield "fedcox float32", batch, own_step(slides, "float32", sizes)
    yield "fedcox bfloat16", batch, own_step(slides, "bfloat16", sizes)


def tf32(allowed: bool) -> None:
    """Whether a GPU may round float32 products to 10 bits."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def measure(sizes: Sizes, device: str, threads: int) -> list[Timing]:
    """Every contender in turn on the same slides."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    slides = Slides.simulated(sizes, device)
    found = []
    for name, worth, step in contenders(slides, sizes, device):
        wall, cpu = timed(step, sizes, device)
        timing = Timing(
            name, device, threads, sizes.batch, 1e6 * wall / worth, 1e6 * cpu / worth
        )
        found.append(timing)
        print(shown(timing, found[0]), flush=True)
        del step
        if device == "cuda":
            torch.cuda.empty_cache()
    return found


def shown(timing: Timing, stacked: Timing) -> str:
    """One line: per slide and pass, and how many times as fast as the stacked rows."""
    return (
        f"{timing.device} × {timing.threads}, {timing.batch:3d} a step  {timing.contender:36s}"
        f"{timing.microseconds:12,.1f} µs wall {timing.cpu_microseconds:12,.1f} µs CPU"
        f"{stacked.microseconds / timing.microseconds:8.1f} times wall"
        f"{stacked.cpu_microseconds / timing.cpu_microseconds:8.1f} times CPU"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Time training per slide and pass over it, on the processor and on a GPU, if any."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.slide_training", description=main.__doc__
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--device", choices=["cpu", "cuda", "both"], default="both")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--keep", action="store_true", help="write slide_training_DEVICE.json")
    chosen = parser.parse_args(arguments)
    found: list[Timing] = []
    if chosen.device != "cuda":
        sizes = Sizes(8, 8, 10, 1, 3) if not chosen.quick else Sizes(3, 2, 4, 1, 1, 50)
        for threads in chosen.threads:
            found += measure(sizes, "cpu", threads)
    if chosen.device != "cpu" and torch.cuda.is_available():
        print(torch.cuda.get_device_name())
        for batch in (100, 200):
            found += measure(Sizes(400, batch, 100, 40, 5), "cuda", 1)
    if chosen.keep:
        keep(found)
    return 0


def keep(found: Sequence[Timing]) -> None:
    """Put the timings beside the other results, with what they were made on."""
    for device in dict.fromkeys(timing.device for timing in found):
        content = {
            "machine": describe_machine(),
            "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
            "torch": str(torch.__version__),
            "tiles": TILES,
            "features": FEATURES,
            "hidden": HIDDEN,
            "intervals": INTERVALS,
            "timings": [asdict(timing) for timing in found if timing.device == device],
        }
        file = RESULTS / f"slide_training_{device}.json"
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
