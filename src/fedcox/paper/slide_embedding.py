"""Slides embedded on all cores: one process and one thread each, or on one GPU.

Small products of a network gain little from several threads, and lose much where the threads
have to wait for each other; slides are independent, so each process takes some of them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from time import perf_counter

from fedcox.errors import InputError
from fedcox.slides.embedding import embed_slides
from fedcox.slides.encoder import (
    AbstractEncoder,
    Device,
    Precision,
    load_encoder,
    usual_batch,
    usual_readers,
)
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.step import StepOutcome, StepProgress, Watch

#: Slides that a process takes at a time.
_TAKEN = 8


@dataclass(frozen=True)
class EncoderChoice:
    """Which encoder, where, and how: one of `weights`, `onnx`, `untrained` (a seed) is given.

    Without `precision` and `batch` they are what suits the device.
    """

    weights: Path | None = None
    onnx: Path | None = None
    untrained: int | None = None
    device: Device = "cpu"
    precision: Precision | None = None
    batch: int | None = None

    def load(self) -> AbstractEncoder:
        return load_encoder(
            weights=self.weights,
            onnx=self.onnx,
            untrained=self.untrained,
            device=self.device,
            precision=self.precision,
        )


def embed_everywhere(
    slides: Sequence[ManifestRow],
    work: Path,
    choice: EncoderChoice,
    watch: Watch = lambda at: None,
    processes: int | None = None,
) -> StepOutcome:
    """Embed what has no features yet; a wrong encoder is told before any process begins."""
    encoder = choice.load()
    batch = choice.batch or usual_batch(choice.device)
    many = min(processes or os.cpu_count() or 1, -(-len(slides) // _TAKEN))
    if choice.device != "cpu" or many < 2:
        readers = usual_readers(choice.device) if choice.device != "cpu" else 0
        return embed_slides(slides, work, encoder, batch=batch, readers=readers, watch=watch)
    del encoder
    parts = [slides[first : first + _TAKEN] for first in range(0, len(slides), _TAKEN)]
    found: list[StepOutcome] = []
    begun = perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(many, context, _begin, (choice,)) as pool:
        waiting = [pool.submit(_embed, part, work, batch) for part in parts]
        try:
            for future in as_completed(waiting):
                found.append(future.result())
                watch(_progress(found, len(slides), perf_counter() - begun))
        except BrokenProcessPool:
            raise InputError(
                "A process that embeds slides came to a sudden end, most likely for want of "
                "memory.",
                ["What is done is kept: go on with --resume."],
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return _together(found, perf_counter() - begun)


_encoder: AbstractEncoder


def _begin(choice: EncoderChoice) -> None:
    """In a new process: one thread, the encoder, and an end with the process that began it."""
    import torch

    global _encoder
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _encoder = choice.load()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _embed(slides: Sequence[ManifestRow], work: Path, batch: int) -> StepOutcome:
    return embed_slides(slides, work, _encoder, batch=batch, readers=0)


def _progress(found: Sequence[StepOutcome], total: int, seconds: float) -> StepProgress:
    ends = [(*one.made, *one.redone, *one.kept, *one.busy, *one.failed) for one in found]
    kept = sum(len(one.kept) for one in found)
    last = ends[-1][-1] if ends[-1] else ""
    tiles = sum(one.tiles for one in found)
    return StepProgress(last, "made", sum(map(len, ends)), total, kept, tiles, seconds)


def _together(found: Sequence[StepOutcome], seconds: float) -> StepOutcome:
    return StepOutcome(
        tuple(name for one in found for name in one.made),
        tuple(name for one in found for name in one.redone),
        tuple(name for one in found for name in one.kept),
        tuple(name for one in found for name in one.busy),
        {name: reason for one in found for name, reason in one.failed.items()},
        sum(one.tiles for one in found),
        seconds,
    )
