"""A center is started, and what is done to it while it runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("nvflare")
from fedcox.cli.center import center
from fedcox.deployment import client, processes
from fedcox.deployment.approval import Approvals, Request
from fedcox.deployment.center_folder import CenterFolder, CenterSettings
from fedcox.deployment.center_job import CenterJob
from fedcox.deployment.client import prepare
from fedcox.engines.nvflare.messages import Heading, Refusal, read_answer
from fedcox.errors import InputError
from fedcox.privacy.budget import Budget
from tests.deployment.hospitals import PLAIN, center_folder

CODE = "-".join(["0a1b"] * 8)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CenterFolder:
    monkeypatch.setattr(CenterFolder, "check_certificate", lambda folder, now: None)
    (tmp_path / "patients.csv").write_text("age\n", encoding="utf-8")
    return center_folder(tmp_path / "center", "Bern", tmp_path / "patients.csv", "default")


def test_a_second_start_does_not_change_what_the_first_answers_by(
    home: CenterFolder, tmp_path: Path
) -> None:
    before = home.settings.read_bytes()
    processes.record(home.running, os.getpid())
    with pytest.raises(InputError, match="connected already"):
        prepare(home, tmp_path / "patients.csv", "none", [CODE])
    with pytest.raises(InputError, match="connected already"):
        client.run(home, CenterSettings(str(tmp_path / "other.csv"), "none"))
    assert home.settings.read_bytes() == before
    assert Approvals(home.pending, home.approved).decision(CODE) is None


@pytest.mark.parametrize(("days", "soon"), [(31, False), (30, True)])
def test_a_new_kit_is_asked_for_from_thirty_days_before_the_end_on(
    home: CenterFolder, monkeypatch: pytest.MonkeyPatch, days: int, soon: bool
) -> None:
    monkeypatch.setattr(CenterFolder, "days_left", lambda folder, now: days)
    words = client.validity(home)
    assert words.startswith(f"Its certificate is valid until {home.expires}.")
    assert (f"in {days} days: ask the coordinator for a new kit" in words) == soon


def test_the_latest_word_on_a_study_counts(home: CenterFolder, tmp_path: Path) -> None:
    approvals = Approvals(home.pending, home.approved)
    prepare(home, tmp_path / "patients.csv", "none", [CODE], unseen=True)
    assert approvals.decision(CODE) is True
    approvals.decide(CODE, approve=False)
    assert approvals.decision(CODE) is False


def test_a_code_that_was_never_shown_is_no_approval(home: CenterFolder, tmp_path: Path) -> None:
    approvals = Approvals(home.pending, home.approved)
    with pytest.raises(InputError) as caught:
        prepare(home, tmp_path / "patients.csv", "none", [CODE, "12"])
    assert len(caught.value.faults) == 2
    assert caught.value.faults[0].startswith(
        f"--approve: No study of the code {CODE} was shown"
    )
    with pytest.raises(InputError, match="was shown here") as caught:
        approvals.decide(CODE, approve=True)
    assert "--unseen" in str(caught.value.faults)
    assert approvals.decision(CODE) is None
    assert not home.trouble.exists()


def test_an_approval_unseen_is_said_aloud(home: CenterFolder, tmp_path: Path) -> None:
    prepare(home, tmp_path / "patients.csv", "none", [CODE], unseen=True)
    said = home.trouble.read_text()
    assert f"{CODE} is approved, and no study of this code was shown" in said


def typed(home: CenterFolder, *words: str) -> Result:
    return CliRunner().invoke(center, ["approve", *words, "--folder", str(home.path)])


@pytest.fixture
def shown(home: CenterFolder) -> CenterFolder:
    """A center at which a study waits."""
    told = {"version": 1, "name": "Bern", "project": "lung", "host": "localhost"}
    told |= {"port": 8002, "expires": "2099-01-01"}
    (home.path / "center.json").write_text(json.dumps(told), encoding="utf-8")
    request = Request(CODE, "lung", PLAIN, ("Aachen", "Bern", "Cork"), {}, "")
    Approvals(home.pending, home.approved).ask(request)
    return home


def test_a_study_is_shown_and_approved_by_its_code(shown: CenterFolder) -> None:
    told = typed(shown)
    assert told.exit_code == 0
    assert "Attendance: all of them in every sum" in told.output
    assert "“lung” is approved." in typed(shown, CODE).output
    assert Approvals(shown.pending, shown.approved).decision(CODE) is True
    assert "No study waits" in typed(shown).output


def test_a_mistyped_code_is_refused_and_unseen_says_so_aloud(shown: CenterFolder) -> None:
    approvals, other = Approvals(shown.pending, shown.approved), CODE.replace("a", "b")
    refused = typed(shown, other)
    assert isinstance(refused.exception, InputError)
    assert approvals.decision(other) is None
    told = typed(shown, other, "--unseen")
    assert told.exit_code == 0
    assert "nobody here has read what it asks" in " ".join(told.output.split())
    assert approvals.decision(other) is True
    assert other in shown.trouble.read_text()
    assert approvals.decision(CODE) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", None])
def test_damaged_settings_let_no_error_out(home: CenterFolder, content: str | None) -> None:
    told = {"version": 1, "name": "Bern", "project": "lung", "host": "localhost"}
    told |= {"port": 8002, "expires": "2099-01-01"}
    (home.path / "center.json").write_text(json.dumps(told), encoding="utf-8")
    if content is not None:
        home.settings.write_text(content, encoding="utf-8")
    context = SimpleNamespace(
        caller="server",
        server=SimpleNamespace(name="server"),
        workspace=SimpleNamespace(get_root_dir=lambda: str(home.flare)),
    )
    answer = CenterJob().handle(b"", context)
    # Undamaged, it gets as far as the message, which is empty.
    expected = Refusal("message" if content is None else "fault")
    assert read_answer(answer, Heading(b"", 0, "hello")) == expected


def test_another_center_is_not_answered(home: CenterFolder) -> None:
    context = SimpleNamespace(caller="Cork", server=SimpleNamespace(name="server"))
    told = CenterJob().handle(b"", context)
    assert read_answer(told, Heading(b"", 0, "hello")) == Refusal("order")


def test_an_account_that_is_shared_takes_over_what_the_folder_spent(
    home: CenterFolder, tmp_path: Path
) -> None:
    """And is kept at the next start, which does not name it."""
    Budget(home.budget).reserve("s", name="lung", epsilon=8.0, delta=1e-5, releases=1)
    data, shared = tmp_path / "patients.csv", tmp_path / "shared.jsonl"
    data.touch()
    for budget in (shared, None):
        settings = prepare(home, data, "default", budget=budget)
        settings.write(home.settings)
        assert settings.account(home) == shared
        assert Budget(settings.account(home)).spent.epsilon == 8.0
