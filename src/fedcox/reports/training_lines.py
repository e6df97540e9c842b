"""What was trained, in a few lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedcox.analysis.slide_training import SlideTraining


def training_lines(training: SlideTraining, folder: Path) -> Iterator[str]:
    """Counts and traffic, what to know, and who was left out; `folder` is where it lies."""
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
        yield f"C-index on the held-out patients: {index:.3f} (true times, mean of slides)."
    without = len(training.cohorts.patients_without_slide)
    if without:
        yield f"{without:,} patient(s) have no slide that can be used, and are left out."
