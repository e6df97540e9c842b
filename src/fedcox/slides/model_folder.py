"""What training leaves on disk: network.safetensors, training.json, ledger.jsonl."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedcox.errors import InputError
from fedcox.files.writing import check_folder, whole_folder, write_atomically
from fedcox.reports.number_text import finite
from fedcox.reports.privacy_ledger import write_ledger
from fedcox.slides.model import NETWORK
from fedcox.slides.training import SlideTraining
from fedcox.study.trained_network import TrainingRecord

FILES = (NETWORK, "training.json", "ledger.jsonl")


def check_model_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Refuse a folder that exists, before any work is done."""
    check_folder(
        folder,
        overwrite=overwrite,
        is_ours=lambda path: path.name in FILES and path.is_file(),
        what="model",
    )


def write_model(
    training: SlideTraining, folder: str | Path, command: str, *, overwrite: bool
) -> None:
    """Write the whole folder or nothing of it; `command` is what was typed."""
    network, record = training.network, training.network.record
    if record is None:
        raise InputError("Only a network that has just been trained has a training to tell.")
    check_model_folder(folder, overwrite=overwrite)
    told = {"command": command, **_told(training, record)}
    with whole_folder(folder) as part:
        network.save(part / NETWORK)
        text = json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(part / "training.json", text + "\n")
        write_ledger(record.ledger, part / "ledger.jsonl")


def _told(training: SlideTraining, record: TrainingRecord) -> dict[str, Any]:
    network, cohorts = training.network, training.cohorts
    return {
        "simulated": network.facts["simulated"],
        # Counts of patients and slides would undo what the noise is for.
        "slides": None if training.private else len(cohorts.opened.bags),
        "slides_left_out": None if training.private else dict(cohorts.failures),
        "validation_c_index": training.held_out_index,
        "features": dict(network.facts),
        "centers": list(record.centers),
        "patients": record.patients,
        "events": record.events,
        "link": network.link,
        "intervals": [finite(edge) for edge in network.edges.tolist()],
        "baseline": [finite(value) for value in network.alpha.tolist()],
        "epochs": [
            {
                **asdict(epoch),
                "loss": finite(epoch.loss),
                "validation": finite(epoch.validation),
            }
            for epoch in record.epochs
        ],
        "best_epoch": record.best,
        "rounds": record.rounds,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "guarantee": None if record.guarantee is None else asdict(record.guarantee),
        "notices": [asdict(notice) for notice in record.notices],
        "versions": dict(record.versions),
    }
