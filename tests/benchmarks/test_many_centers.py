from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.center_cost_figure import center_cost_svg
from benchmarks.many_centers import (
    FEW,
    SIZES,
    CenterCost,
    best_costs,
    cost_table,
    main,
    measure,
    read_costs,
)
from fedcox.engines import in_process

ROOT = Path(__file__).parents[2]
STORED = ROOT / "benchmarks" / "results" / "many_centers.jsonl"
FIGURE = ROOT / "docs" / "figures" / "many-centers.svg"
PAGE = ROOT / "docs" / "how-to-simulate-many-centers.md"

ONE = CenterCost(10, True, 8, 0.3, 0.16, 1.0, 1e-16)
RUNS = [
    ONE,
    replace(ONE, repeat=2, cpu_seconds=0.2),
    replace(ONE, centers=100, cpu_seconds=1.68),
    replace(ONE, centers=100, apart=False, cpu_seconds=0.08),
]


@pytest.mark.parametrize("apart", [True, False])
def test_a_fit_over_many_centers_is_measured_and_is_the_pooled_fit(apart: bool) -> None:
    found = measure(FEW + 6, apart=apart, patients=20)
    assert (found.centers, found.apart, found.patients) == (FEW + 6, apart, 20)
    assert found.cpu_seconds > 0
    assert found.rounds > 2
    assert found.coefficient_difference < 1e-9


def test_the_cost_is_of_one_center_in_one_round_and_the_cheapest_run_counts() -> None:
    best = best_costs(RUNS)
    assert [(cost.centers, cost.apart) for cost in best] == [
        (10, True),
        (100, True),
        (100, False),
    ]
    assert [cost.microseconds for cost in best] == pytest.approx([2000.0, 2100.0, 100.0])
    assert [row[4] for row in cost_table(RUNS).rows] == ["2000", "2100", "100"]


def test_a_line_of_a_stored_run_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(asdict(run)) + "\n" for run in RUNS), encoding="utf-8")
    assert read_costs(file) == RUNS


def test_the_figure_shows_both_ways_and_says_which_is_which() -> None:
    drawn = center_cost_svg(RUNS)
    ElementTree.fromstring(drawn)  # it is XML
    paths = re.findall(r'class="c (c\d)" d="(M[\d L]+)"', drawn)
    assert [(style, path.count("L") + 1) for style, path in paths] == [("c0", 2), ("c1", 1)]
    assert "every center replies for itself" in drawn
    assert f"summed over in groups, as one process does above {FEW} of them" in drawn
    assert "2000 µs with 10 centers, 2100 µs with 100" in drawn


def test_groups_begin_where_the_benchmark_says() -> None:
    assert in_process._FEW == FEW


def test_the_figure_of_the_documentation_is_that_of_the_stored_run(tmp_path: Path) -> None:
    again = tmp_path / "again.svg"
    assert main(["--figure", str(STORED), str(again)]) == 0
    assert again.read_bytes() == FIGURE.read_bytes()


def test_in_the_stored_run_a_center_costs_the_same_among_ten_and_among_ten_thousand() -> None:
    best = best_costs(read_costs(STORED))
    apart = [cost.microseconds for cost in best if cost.apart]
    groups = [cost.microseconds for cost in best if not cost.apart]
    assert [cost.centers for cost in best if cost.apart] == list(SIZES)
    assert [cost.centers for cost in best if not cost.apart] == [n for n in SIZES if n > FEW]
    assert max(apart) < 1.5 * min(apart)
    assert max(groups) < 1.5 * min(groups)
    assert all(cost.coefficient_difference < 1e-9 for cost in best)
    told = PAGE.read_text(encoding="utf-8")
    assert f"between {min(apart):.0f} and {max(apart):.0f} µs" in told
    assert f"{min(groups):.0f} to {max(groups):.0f} µs" in told
