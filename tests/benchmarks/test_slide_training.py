"""The benchmark of slide training runs, and all of its contenders train the same model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import slide_training
from benchmarks.slide_training import INTERVALS, Layers, Sizes, Slides, main, plain_step
from fedcox.models.architecture import TileScorer
from fedcox.models.neural import NeuralModel
from fedcox.survival.time_grid import TimeGrid


def test_it_times_every_contender_and_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(slide_training, "RESULTS", tmp_path)
    try:
        assert main(["--quick", "--device", "cpu", "--threads", "1", "--keep"]) == 0
    finally:
        torch.set_num_threads(threads)
    kept = json.loads((tmp_path / "slide_training_cpu.json").read_text(encoding="utf-8"))
    names = [timing["contender"] for timing in kept["timings"]]
    assert len(names) == 6
    assert names[0].startswith(slide_training.STACKED)
    assert all(timing["microseconds"] > 0 for timing in kept["timings"])
    assert len(capsys.readouterr().out.splitlines()) == len(names)


def test_plain_training_and_ours_have_the_same_gradient() -> None:
    sizes = Sizes(slides=3, batch=3, rows=4, steps=1, repeats=1, tiles=20)
    slides = Slides.simulated(sizes, "cpu")
    module = Layers()
    theta = np.concatenate(
        [
            module.first.weight.detach().numpy().ravel(),
            module.first.bias.detach().numpy(),
            module.second.weight.detach().numpy().ravel(),
        ]
    ).astype(np.float64)
    # The plain layer's last bias is one more level for all intervals.
    alpha = np.full(INTERVALS, float(module.second.bias.detach()[0]))
    plain_step(slides, module, sizes)()
    model = NeuralModel(TileScorer(), "logit", INTERVALS, precision="float64")
    grid = TimeGrid.regular(1.0, float(INTERVALS))
    cohort = slides.cohort
    patients = model.lay_out(cohort, grid.at_risk(cohort.time, cohort.event, "include"))
    found = model.gradient(theta, alpha, patients)
    assert module.alpha.grad is not None
    assert module.first.weight.grad is not None
    assert found.alpha == pytest.approx(module.alpha.grad.numpy(), rel=1e-4, abs=1e-5)
    weights = module.first.weight.grad.numpy().ravel()
    assert found.beta[: weights.size] == pytest.approx(weights, rel=1e-3, abs=1e-5)
