"""Architectures that can be named, and a researcher's own that cannot be sent."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from torch import nn

from fedcox.errors import WeightsError
from fedcox.models.architecture import (
    AbstractArchitecture,
    OwnModule,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
    architecture_from_json,
)


@pytest.mark.parametrize(
    "architecture",
    [TileScorer(), TileScorer(64, 32, 0.0), TileScorerWithTable(8, 3), Perceptron(4, (8, 2))],
)
def test_a_listed_architecture_comes_back_from_json(architecture: AbstractArchitecture) -> None:
    assert (
        architecture_from_json(json.loads(json.dumps(architecture.to_json()))) == architecture
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": "transformer"},
        {"name": "tile scorer", "depth": 3},
        {"name": "tile scorer", "features": 0},
        {"name": "tile scorer", "features": 2.5},
        {"name": "tile scorer", "features": True},
        {"name": "tile scorer", "slope": "steep"},
        {"name": "tile scorer", "slope": 1.0},
        {"name": "perceptron", "columns": 3, "hidden": 4},
        {"name": "perceptron", "columns": 3, "hidden": [4, -1]},
        {"name": "perceptron"},
    ],
)
def test_anything_else_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(WeightsError):
        architecture_from_json(values)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(WeightsError) as caught:
        TileScorerWithTable(0, -1, 0, 2.0)
    assert len(caught.value.faults) == 4


def test_own_code_stays_in_this_process() -> None:
    own = OwnModule("mine", "table", lambda: nn.Linear(2, 1))
    with pytest.raises(WeightsError, match="cannot be sent"):
        own.to_json()
    with pytest.raises(WeightsError, match="must take"):
        OwnModule("mine", "graph", lambda: nn.Linear(2, 1))  # type: ignore[arg-type]


def test_naming_an_architecture_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from fedcox.models.architecture import TileScorer\n"
        "from fedcox.survival.derivatives import Derivatives\n"
        "from fedcox.errors import InputError\n"
        "try:\n    TileScorer().build()\n"
        "except InputError as error:\n    assert 'fedcox[deep]' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
