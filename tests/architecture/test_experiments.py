"""Every number of the experiments' README, and of the expected values, is a stored run's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.tables import EXPECTED, README, RUNS, expected_text, stored, with_tables


def test_the_readme_shows_what_is_stored() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run `python -m experiments.tables`"


def test_expected_values_are_those_of_the_stored_runs() -> None:
    assert EXPECTED.read_text(encoding="utf-8") == expected_text()


def test_stored_runs_are_whole_and_say_how_to_repeat_them() -> None:
    for run in RUNS:
        record = stored(run)
        assert record["command"].startswith("fedcox reproduce")
        for panel, header in record["panels"].items():
            found = [c for c in record["comparisons"] if c["panel"] == panel]
            rows = sum(
                scheme["test_sets"] + scheme["without_index"]
                for comparison in found
                for scheme in comparison["schemes"]
            )
            assert rows == header["rows"]


@pytest.mark.parametrize("run", ["privacy", "compression"])
def test_every_statement_of_a_stored_run_held(run: str) -> None:
    file = README.parent / "results" / run / f"{run}.json"
    text = file.read_text(encoding="utf-8")
    claims = _claims(json.loads(text))
    assert len(claims) >= 5
    assert all(claim["held"] for claim in claims)


def _claims(record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record.get("study", record)["claims"]
    return found
