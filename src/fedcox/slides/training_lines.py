"""What was trained, in a few lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedcox.slides.training import SlideTraining


def training_lines(training: SlideTraining, folder: Path) -> Iterator[str]:
    """Counts and traffic, and what to know; `folder` is where it lies."""
    record = training.network.record
    if record is None:
        return
    sent = f"{record.rounds:,} rounds, {record.bytes_up / 1e6:,.1f} MB sent by all centers"
    counts = ""
    if record.patients is not None:
        counts = f"{record.patients:,} patients, {record.events:,} events, "
    yield f"{folder}: {counts}{len(record.centers)} centers; {sent}."
    for notice in record.notices:
        yield notice.text
    index = training.held_out_index
    if index is not None:
        yield (
            f"C-index on the held-out patients: {index:.3f} (true times, mean of slides). They "
            "also chose the epoch that is kept, so new patients may be ranked less well."
        )
