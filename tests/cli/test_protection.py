"""Protected studies on the command line: what works, and what is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Outcome, Run

STUDY = """
[outcome]
time = "t"
event = "e"

[covariates]
age = {{ type = "number", min = 20, max = 100 }}
sex = {{ type = "category", levels = ["f", "m"], reference = "f" }}

[grid]
width = 90
horizon = 900

[model]
link = "{link}"

[solver]
{solver}

[privacy]
{privacy}
"""


EXACT = 'secure_sums = true\nnoise = "none"'


def write(
    folder: Path,
    privacy: str,
    solver: str = 'method = "newton"',
    centers: int = 4,
    link: str = "log",
) -> None:
    rng = np.random.default_rng(4)
    size = 120 * centers
    age, male = np.clip(rng.normal(60, 10, size), 20, 100), rng.random(size) < 0.5
    happens = rng.exponential(500 * np.exp(-0.03 * (age - 60) - 0.4 * male))
    ends = rng.uniform(100, 1000, size)
    frame = pd.DataFrame(
        {
            "t": np.minimum(happens, ends).round(1) + 0.5,
            "e": (happens < ends).astype(int),
            "age": age.round(1),
            "sex": np.where(male, "m", "f"),
            "site": np.repeat([f"s{k}" for k in range(centers)], 120),
        }
    )
    frame.to_csv(folder / "all.csv", index=False)
    (folder / "study.toml").write_text(STUDY.format(solver=solver, privacy=privacy, link=link))


def fit(fedcox: Run, folder: Path, *options: str) -> Outcome:
    return fedcox(
        *("fit", folder / "study.toml", "--data", folder / "all.csv"),
        *("--center-column", "site", "--out", folder / "run", *options),
    )


def test_exact_sums_leave_where_study_and_policies_say_so(fedcox: Run, tmp_path: Path) -> None:
    def write_in_tenths(privacy: str) -> None:
        write(tmp_path, privacy)
        study = tmp_path / "study.toml"
        study.write_text(
            study.read_text().replace('event = "e"', 'event = "e"\nresolution = 0.1')
        )

    write_in_tenths(EXACT)
    refused = fit(fedcox, tmp_path, "--policy", "default")
    assert refused.status == 2
    assert "s0: exact_sums: sums would leave without noise" in refused.err
    (tmp_path / "policy.toml").write_text("exact_sums = true\n")
    done = fit(fedcox, tmp_path, "--policy", str(tmp_path / "policy.toml"))
    assert done.status == 0, done.err
    assert "able to compute patients" in " ".join(done.out.replace("│", " ").split())
    found = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert [row["patients"] for row in found["centers"]] == [None] * 4
    assert found["patients"] == 480
    ledger = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    rows = [json.loads(row) for row in ledger]
    assert {row["protection"] for row in rows} == {"keys", "masks"}
    write_in_tenths("")
    assert fit(fedcox, tmp_path, "--overwrite").status == 0
    plain = json.loads((tmp_path / "run" / "fit.json").read_text())
    for ours, theirs in zip(found["coefficients"], plain["coefficients"], strict=True):
        assert ours["coef"] == pytest.approx(theirs["coef"], rel=1e-6)
        assert ours["se"] == pytest.approx(theirs["se"], rel=1e-6)


def test_two_centers_cannot_have_secure_sums(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, EXACT, centers=2)
    refused = fit(fedcox, tmp_path)
    assert refused.status == 2
    assert "2 centers are too few" in refused.err
    assert not (tmp_path / "run").exists()


def test_a_policy_that_the_study_cannot_meet(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "strict.toml").write_text('columns = ["age"]\n', encoding="utf-8")
    refused = fit(fedcox, tmp_path, "--policy", f"s1={tmp_path / 'strict.toml'}")
    assert refused.status == 2
    assert "s1: columns: 'sex'" in refused.err
    assert "s1: exact_sums: " in refused.err
    assert not (tmp_path / "run").exists()


def test_a_hospital_checks_its_policy_alone(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, EXACT)
    words = ("check", tmp_path / "study.toml", "--data", tmp_path / "all.csv", "--policy")
    (tmp_path / "policy.toml").write_text("exact_sums = true\n")
    allowed = fedcox(*words, tmp_path / "policy.toml")
    assert allowed.status == 0, allowed.err
    assert "The policy allows this study" in allowed.out
    (tmp_path / "policy.toml").write_text("epsilon = 10\n")
    refused = fedcox(*words, tmp_path / "policy.toml")
    assert refused.status == 2
    assert "exact_sums: sums would leave without noise" in refused.err


def test_a_policy_with_the_tables_of_before_is_refused_with_what_replaced_them(
    fedcox: Run, tmp_path: Path
) -> None:
    write(tmp_path, EXACT)
    (tmp_path / "policy.toml").write_text("[groups]\ninterval = 10\n")
    refused = fit(fedcox, tmp_path, "--policy", str(tmp_path / "policy.toml"))
    assert refused.status == 2
    assert "[groups]: a policy has no tables any more" in refused.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        (["nowhere.toml"], "there is no such policy file"),
        (["default", "default"], "is there"),
        (["s9=default"], "'s9' is not among s0, s1, s2, s3"),
    ],
)
def test_policies_that_are_not_clear(
    fedcox: Run, tmp_path: Path, policies: list[str], told: str
) -> None:
    write(tmp_path, EXACT)
    options = [word for policy in policies for word in ("--policy", policy)]
    refused = fit(fedcox, tmp_path, *options)
    assert refused.status == 2
    assert told in refused.err
    assert not (tmp_path / "run").exists()


NOISE = "secure_sums = true\n[privacy.noise]\nepsilon = 2.0\npatients = 480"


def test_an_epsilon_is_spent_once(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, NOISE)
    (tmp_path / "policy.toml").write_text("epsilon = 3\ndelta = 1e-4\n")
    options = ("--policy", str(tmp_path / "policy.toml"), "--budget", str(tmp_path / "spent"))
    done = fit(fedcox, tmp_path, *options)
    assert done.status == 0, done.err
    assert "differential privacy" in done.out
    again = fit(fedcox, tmp_path, *options, "--overwrite")
    assert again.status == 2
    assert "privacy budget does not cover this study" in again.err
    assert "of 3 is spent" in again.err
    assert (tmp_path / "run" / "fit.json").exists()  # the first run is as it was


def test_a_budget_without_noise_is_a_mistake(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, EXACT)
    refused = fit(fedcox, tmp_path, "--budget", str(tmp_path / "spent"))
    assert refused.status == 2
    assert "for studies under differential privacy" in refused.err


def test_a_column_too_large_for_the_masks_is_told_without_its_values(
    fedcox: Run, tmp_path: Path
) -> None:
    write(tmp_path, EXACT)
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace(", min = 20, max = 100", ""))
    frame = pd.read_csv(tmp_path / "all.csv")
    frame["age"] *= 1e17
    frame.to_csv(tmp_path / "all.csv", index=False)
    refused = fit(fedcox, tmp_path)
    assert refused.status == 2
    assert "out of range" in refused.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("solver", "rule"),
    [
        (
            'method = "adam"',
            "rounds: the study asks for 2001; at most 200 questions are answered",
        ),
        ('method = "adam"\nsteps = 50\nbatch_size = 50', "'gradient of a batch'"),
        ('method = "fedavg"', "'local steps'"),
    ],
)
def test_what_a_policy_is_sure_to_refuse_is_told_by_check(
    fedcox: Run, tmp_path: Path, solver: str, rule: str
) -> None:
    write(tmp_path, EXACT, solver)
    data = ("--data", tmp_path / "all.csv")
    refused = fedcox("check", tmp_path / "study.toml", *data, "--policy", "default")
    assert refused.status == 2
    assert rule in refused.err


def test_follow_up_beyond_what_was_looked_for_is_no_silent_cut(
    fedcox: Run, tmp_path: Path
) -> None:
    write(tmp_path, f"{EXACT}\nlongest = 300")
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace("horizon = 900\n", ""))
    refused = fit(fedcox, tmp_path)
    assert refused.status == 2
    assert "Follow-up reaches beyond 300" in refused.err
    assert "longest" in refused.err


def test_large_units_are_no_trouble(fedcox: Run, tmp_path: Path) -> None:
    """Platelets per litre: their squares are beyond any one integer."""
    write(tmp_path, EXACT)
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace(", min = 20, max = 100", ""))
    assert fit(fedcox, tmp_path).status == 0
    small = json.loads((tmp_path / "run" / "fit.json").read_text())["coefficients"][0]
    frame = pd.read_csv(tmp_path / "all.csv")
    frame["age"] *= 1e10
    frame.to_csv(tmp_path / "all.csv", index=False)
    assert fit(fedcox, tmp_path, "--overwrite").status == 0
    large = json.loads((tmp_path / "run" / "fit.json").read_text())["coefficients"][0]
    assert 1e10 * large["coef"] == pytest.approx(small["coef"], rel=1e-6)
    assert large["z"] == pytest.approx(small["z"], rel=1e-6)


def test_a_refused_study_costs_no_hospital_its_epsilon(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, NOISE)
    rich, poor = tmp_path / "rich.toml", tmp_path / "poor.toml"
    rich.write_text("epsilon = 9\ndelta = 1e-4\n")
    poor.write_text("epsilon = 2.5\ndelta = 1e-4\n")
    spent = tmp_path / "spent"
    options = ("--policy", str(rich), "--policy", f"s3={poor}", "--budget", str(spent))
    assert fit(fedcox, tmp_path, *options).status == 0
    before = (spent / "s0.jsonl").read_text()
    refused = fit(fedcox, tmp_path, *options, "--overwrite")
    assert refused.status == 2
    assert "s3: These patients' privacy budget does not cover this study" in refused.err
    assert (spent / "s0.jsonl").read_text() == before


def test_one_patient_more_or_less_never_shows_in_the_warnings_under_noise(
    fedcox: Run, tmp_path: Path
) -> None:
    told = []
    for nameless in (0, 1):
        write(tmp_path, NOISE, link='log"\nmissing = "drop')
        frame = pd.read_csv(tmp_path / "all.csv")
        frame.loc[: nameless - 1, "site"] = None
        frame.to_csv(tmp_path / "all.csv", index=False)
        assert fit(fedcox, tmp_path, "--overwrite").status == 0
        warned = json.loads((tmp_path / "run" / "fit.json").read_text())["warnings"]
        # For which of its reasons so small a study did not arrive is up to the noise.
        told.append([(each["name"], "did not arrive" in each["text"]) for each in warned])
    assert told[0] == told[1] == [("NotConvergedWarning", True)]


def test_an_evaluation_does_not_take_the_noise_off(fedcox: Run, tmp_path: Path) -> None:
    write(tmp_path, NOISE)
    refused = fedcox(
        *("evaluate", tmp_path / "study.toml", "--data", tmp_path / "all.csv"),
        *("--center-column", "site", "--out", tmp_path / "run"),
    )
    assert refused.status == 2
    assert "an evaluation adds no noise" in refused.err
