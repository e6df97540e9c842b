"""`fedcox plan`: before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcox.reports.plan_page import plan_html, size_lines, what_follows
from fedcox.study.study_plan import plan
from tests.cli.conftest import Run
from tests.reports.page_checks import check_page
from tests.study.test_study_plan import study


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(study().to_toml())
    return path


def test_epsilon_price_and_power_stand_in_a_table(fedcox: Run, file: Path) -> None:
    told = fedcox("plan", file, "--patients", "1500", "--events", "700")
    assert told.status == 0
    made = plan(study(), patients=1500, events=700)
    own = next(line for line in told.out.splitlines() if "price 0.05 *" in line)
    assert made.own.epsilon is not None
    assert f"{made.own.epsilon:.1f}"[:3] in own
    assert "× 1.05" in own
    assert "1,500 patients, 700 events, 5 centers, 6 coefficients" in told.out
    assert "Epsilon bounds what the presence of any one patient can show" in told.out
    assert "no guarantee worth the name" in " ".join(told.out.split())


def test_what_follows_from_the_study_stands_beside_every_number_of_patients() -> None:
    """Epsilon where it names a price, else the factor on standard errors."""
    by_price = plan(study(), patients=1500, events=700)
    by_epsilon = plan(study(noise={"epsilon": 3.0, "patients": 1500}), patients=1500)
    assert (what_follows(by_price), what_follows(by_epsilon)) == ("epsilon", "SE")
    assert all("×" not in line.follows for line in size_lines(by_price))
    assert all(line.follows.startswith("× ") for line in size_lines(by_epsilon))


def test_a_plan_for_machines_is_what_is_written(
    fedcox: Run, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "plan"
    words = ("plan", file, "--patients", "900", "--centers", "3", "--out", out)
    told = fedcox(*words, "--json")
    assert told.status == 0
    assert json.loads(told.out) == json.loads((out / "plan.json").read_text())
    assert json.loads(told.out)["centers"] == 3
    assert sorted(path.name for path in out.iterdir()) == ["plan.html", "plan.json"]
    assert fedcox(*words).status == 2
    assert fedcox(*words, "--overwrite").status == 0


def test_what_lacks_is_named_and_nothing_is_written(fedcox: Run, tmp_path: Path) -> None:
    file, out = tmp_path / "study.toml", tmp_path / "plan"
    file.write_text('covariates = ["age"]\n[outcome]\ntime = "days"\nevent = "died"\n')
    told = fedcox("plan", file, "--patients", "1500", "--out", out)
    assert told.status == 2
    assert "[grid] horizon: needed" in told.err
    assert "min and max" in told.err
    assert not out.exists()


@pytest.mark.parametrize("patients", [20, 1500, 40_000])
def test_the_page_is_sound_for_few_and_for_many(patients: int) -> None:
    page = plan_html(plan(study(), patients=patients, events=patients // 2, shares=[0.2]))
    check_page(page)
    assert "20 % level" in page
