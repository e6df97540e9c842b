"""What a data manager is shown before saying yes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from fedcox.deployment.approval import Request
from fedcox.deployment.center_folder import CenterFolder, CenterSettings
from fedcox.deployment.study_words import EXACT_SUMS, request_lines
from fedcox.files.followed import append_rows
from fedcox.privacy.budget import Budget
from fedcox.study.noised_fit import spending
from tests.deployment.hospitals import PLAIN, SECURE, STUDY, study

WIPED = "\x1b[2J\x1b[1;1H"
TOML = PLAIN.replace("\nage = {", '\n"age\\u001b[2J\\u202e" = {')
NOISED = STUDY + "\n[privacy]\nsecure_sums = true\nnoise = { patients = 630, epsilon = 4 }\n"


@pytest.fixture
def home(tmp_path: Path) -> CenterFolder:
    return CenterFolder(tmp_path, "Bern", "lung", "localhost", 8002, date(2099, 1, 1))


def lines(home: CenterFolder, text: str, centers: int = 3) -> list[str]:
    names = tuple(f"Hospital {number}" for number in range(1, centers + 1))
    return request_lines(Request("0a1b", "lung", text, names, {}, ""), home)


def test_nobody_writes_on_the_data_manager_s_terminal(home: CenterFolder) -> None:
    name = f"lung{WIPED}\nProtection: replies leave under masks"
    centers = ("Aachen", f"Bern{WIPED}")
    request = Request("0a1b", name, TOML, centers, {f"Cork{WIPED}": "ab cd"}, "")
    Budget(home.budget).reserve("s", name=name, epsilon=1.0, delta=1e-5, releases=1)
    found = request_lines(request, home)
    assert all(line.isprintable() for line in found)
    assert found[0].startswith(r"Study: lung\u001b[2J")
    assert not any(line.startswith("Protection: replies") for line in found)


def test_earlier_exact_studies_of_one_name_are_told_apart(home: CenterFolder) -> None:
    for day, code in (("2026-01-05", "aa"), ("2026-02-06", "bb"), ("2026-02-07", "bb")):
        row = {"time": f"{day}T10:00:00", "study": "lung", "code": code, "protection": "masks"}
        append_rows(home.ledger, [row])
    found = [line for line in lines(home, NOISED) if "exact sums" in line]
    assert found == [f"  {day} “lung”: exact sums" for day in ("2026-01-05", "2026-02-06")]


def test_folders_of_one_hospital_share_the_account_that_they_were_started_with(
    home: CenterFolder, tmp_path: Path
) -> None:
    account = tmp_path / "account.jsonl"
    Budget(account).reserve("s", name="other", epsilon=2.5, delta=1e-5, releases=1)
    CenterSettings("patients.csv", "default", str(account)).write(home.settings)
    assert any("epsilon 2.5" in line and "other" in line for line in lines(home, NOISED))


def test_all_that_is_approved_is_shown(home: CenterFolder) -> None:
    agreed = spending(study(NOISED), 3)
    assert lines(home, NOISED)[2:] == [
        "Hospitals: Hospital 1, Hospital 2, Hospital 3",
        "Attendance: all of them in every sum; a sum over fewer is refused.",
        "Model: hazard ratios, link log.",
        "Outcome: time in column days; event where column died is 1.",
        "Time: pieces of 60, up to 720.",
        "Columns it reads: days, died, age, stage",
        "  age: a number from 0 to 120",
        "  stage: a category with the levels I, II, III; compared with I",
        "A patient without a value: the file is refused.",
        "Protection: replies leave under masks with noise in them; only noised sums over "
        "hospitals are seen.",
        f"This study spends: epsilon 4, delta 1e-05, {agreed.sums} noised sums. An epsilon "
        "this large promises little.",
        "Against all other hospitals together, who know the noise that they added: epsilon "
        f"{agreed.against_centers:.4g}.",
        "Spent before on these patients: epsilon 0, delta 0.",
        "Earlier studies on these patients: none.",
        "It may ask, and nothing else is answered:",
        "  noised life table: how many patients leave in each cell of time, with and without "
        "the event, with noise",
        "  noised covariate moments: sums of the covariates and of their squares, with noise",
        "  noised covariate products: squares and products of the covariates, with noise",
        "  noised event moments: sums of the covariates of those with the event, with noise",
        "  noised score: the slope of the log-likelihood, each patient's share bounded, with "
        "noise",
        "  noised information: the curvature of the log-likelihood, each patient's share "
        "bounded, with noise",
        "Keys of the hospitals. The code above stands for them all: where another hospital",
        "reads you the same code, it was shown the same study and the same keys.",
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("width = 60", "pieces = 7"), "Time: 7 pieces, cut where the events are, up to 720."),
        (
            ("width = 60\nhorizon = 720", "edges = [60, 365.25]"),
            "Time: pieces that end at 60, 365.25.",
        ),
        (
            ("width = 60\nhorizon = 720", 'times = "events"'),
            "Time: every distinct event time, to the end of follow-up.",
        ),
        (
            ("[grid]", '[model]\nmissing = "drop"\nridge = 0.5\n\n[grid]'),
            "A patient without a value: the patient is left out.",
        ),
        (
            ("[grid]", '[model]\nbaseline = "spline"\nridge = 0.5\n\n[grid]'),
            "Model: hazard ratios, link log, spline baseline of 5 numbers, ridge 0.5, fitted "
            "by newton.",
        ),
        (
            ("[grid]", '[model]\nlink = "logit"\n\n[grid]'),
            "Model: hazard odds ratios, link logit, grouped time, who is censored inside an "
            "interval: include, fitted by newton.",
        ),
        (
            ("[grid]", "[attendance]\nneeded = 2\n\n[grid]"),
            "Attendance: at least 2 of them in every sum; a sum over fewer is refused.",
        ),
        (
            ('event = "died"', 'event = "died"\nunit = "days"\nresolution = 7\nmin = 1'),
            "Outcome: time in column days in days, recorded in steps of 7, 1 at least; event "
            "where column died is 1.",
        ),
        (("min = 0, max = 120", "max = 120"), "  age: a number, 120 at most"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_choice_of_the_study_has_its_line(
    home: CenterFolder, change: tuple[str, str], line: str
) -> None:
    changed = PLAIN.replace(*change)
    assert changed != PLAIN
    assert line in lines(home, changed)


@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_exact_sums_come_with_a_warning(home: CenterFolder, text: str) -> None:
    assert EXACT_SUMS in lines(home, text)
    assert EXACT_SUMS not in lines(home, NOISED)


def test_pieces_that_the_study_leaves_open_are_counted_under_noise(home: CenterFolder) -> None:
    found = lines(home, NOISED.replace("width = 60\n", ""))
    (line,) = [each for each in found if each.startswith("Time")]
    assert line == "Time: 4 pieces at most, cut where the noised events are, up to 720."


def test_earlier_studies_are_shown_by_name_and_date(home: CenterFolder) -> None:
    budget = Budget(home.budget, today=lambda: date(2026, 3, 2))
    budget.reserve("a", name="first", epsilon=3.0, delta=1e-5, releases=11)
    budget.reserve("b", name="second", epsilon=0.5, delta=1e-5, releases=11)
    for day, protection in (("05", "masks"), ("06", "none"), ("07", "masks and noise")):
        row = {"time": f"2026-03-{day}T08:00:00+01:00", "study": f"of the {day}th"}
        append_rows(home.ledger, [{**row, "protection": protection}] * 2)
    found = lines(home, NOISED)
    first = found.index("Spent before on these patients: epsilon 3.5, delta 2e-05.")
    assert found[first + 1 : first + 6] == [
        "Earlier studies on these patients:",
        "  2026-03-02 “first”: noise, epsilon 3, delta 1e-05",
        "  2026-03-02 “second”: noise, epsilon 0.5, delta 1e-05",
        "  2026-03-05 “of the 05th”: exact sums",
        "  2026-03-06 “of the 06th”: exact sums",
    ]


@pytest.mark.parametrize("damage", ["budget", "policy"])
def test_what_cannot_be_read_is_said_in_its_place(home: CenterFolder, damage: str) -> None:
    if damage == "budget":
        home.budget.write_text("{}\n")
    else:
        CenterSettings("patients.csv", str(home.path / "gone.toml")).write(home.settings)
    words = {"budget": "cannot be trusted", "policy": "cannot be shown"}[damage]
    found = lines(home, NOISED)
    assert any(words in line for line in found)
    assert "It may ask, and nothing else is answered:" in found
