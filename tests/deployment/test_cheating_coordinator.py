"""Hospitals in processes of their own refuse what they did not approve.

One federation of four hospitals for all tests; the coordinator's study process cheats.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")
pytest.importorskip("dp_accounting")
from fedcox.deployment import jobs
from fedcox.deployment.approval import Request
from fedcox.deployment.runs import RunFolder
from fedcox.deployment.study_words import request_lines
from fedcox.errors import InputError
from fedcox.privacy.budget import Budget, Payment
from fedcox.study.study import Study
from tests.deployment import coordinator_that_cheats as cheats
from tests.deployment.conftest import (
    LiveFederation,
    ended,
    free_port,
    make_federation,
    wait_until,
)

NAMES = ("A", "B", "C", cheats.DROPPED)
EPSILON = 2.0
#: What hospitals get unless the study says otherwise: secure sums, here of this epsilon.
PRIVACY = {"noise": {"epsilon": EPSILON, "patients": 400}}


@dataclass
class Cheated:
    """Four hospitals, and a coordinator whose study process does as it is told."""

    live: LiveFederation
    place: Path
    policy: Path

    def attack(self, name: str) -> None:
        (self.place / cheats.ATTACK).write_text(name, encoding="utf-8")
        (self.place / cheats.ANSWERS).unlink(missing_ok=True)

    @property
    def answers(self) -> list[dict[str, Any]]:
        text = (self.place / cheats.ANSWERS).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def allow(self, epsilon: float) -> None:
        """So much, over all studies, by every hospital's policy."""
        self.policy.write_text(f"epsilon = {epsilon}\ndelta = 1e-3\n", encoding="utf-8")

    def payments(self, name: str) -> tuple[Payment, ...]:
        return Budget(self.live.centers[name].budget).spent.payments

    def left(self) -> dict[str, list[dict[str, Any]]]:
        """What left each hospital so far, by its own ledger."""
        return {
            name: [json.loads(row) for row in center.ledger.read_text().splitlines()]
            for name, center in self.live.centers.items()
            if center.ledger.exists()
        }

    def failure(self, run: RunFolder) -> InputError:
        failure = run.failure()
        assert failure is not None
        assert not run.result.exists()
        return failure

    def shown(self, study: Study) -> dict[str, Request]:
        """What each hospital is shown of a study that has begun, once it is."""
        wait_until(lambda: all(self._shown(study, name) for name in NAMES))
        return {name: self._shown(study, name)[0] for name in NAMES}

    def _shown(self, study: Study, name: str) -> list[Request]:
        code = self.live.code(study)
        return [each for each in self.live.approvals(name).waiting() if each.code == code]


@pytest.fixture(scope="module")
def cheated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cheated]:
    folder = tmp_path_factory.mktemp("cheated")
    place = folder / "cheats"
    place.mkdir()
    shutil.copy(cheats.__file__, place / "sitecustomize.py")
    policy = folder / "policy.toml"
    live = make_federation(folder, free_port(), NAMES, str(policy), PRIVACY)
    made = Cheated(live, place, policy)
    made.allow(100.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cheats.PLACE, str(place))
        path = [str(place), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        with live.connected():
            yield made


@pytest.fixture(scope="module")
def answered(cheated: Cheated) -> RunFolder:
    """A study that was answered, while every message to a hospital was sent twice."""
    cheated.attack("replay")
    with jobs.session(cheated.live.home) as line:
        run, _ = cheated.live.run(line, cheated.live.named("first"))
    assert run.failure() is None
    return run


def test_a_replayed_message_is_not_answered_again(
    cheated: Cheated, answered: RunFolder
) -> None:
    replayed = cheated.answers
    assert {row["step"] for row in replayed} == {"study", "masked", "release"}
    assert {row["center"] for row in replayed} == set(NAMES)
    assert {row["refused"] for row in replayed} == {"order"}
    for name in NAMES:
        rows = [row for row in cheated.left()[name] if row["study"] == "first"]
        assert {row["protection"] for row in rows} == {"masks and noise"}
        (payment,) = [each for each in cheated.payments(name) if each.name == "first"]
        assert payment.releases == len(rows)


def test_a_replayed_study_gets_no_second_reply_of_any_round(
    cheated: Cheated, answered: RunFolder
) -> None:
    cheated.attack("none")
    left, paid = cheated.left(), {name: cheated.payments(name) for name in NAMES}
    with jobs.session(cheated.live.home) as line:
        run, _ = cheated.live.run(line, cheated.live.named("first"), overwrite=True)
    faults = cheated.failure(run).faults
    assert len(faults) == len(NAMES)
    assert all("privacy budget does not cover" in fault for fault in faults)
    assert cheated.left() == left
    assert {name: cheated.payments(name) for name in NAMES} == paid


def test_the_same_questions_under_another_name_cost_and_are_shown_as_an_earlier_study(
    cheated: Cheated, answered: RunFolder
) -> None:
    cheated.attack("none")
    spent = sum(payment.epsilon for payment in cheated.payments("A"))
    cheated.allow(spent + 1.5 * EPSILON)
    again, once_more = cheated.live.named("again"), cheated.live.named("once more")
    before = f"Spent before on these patients: epsilon {spent:.4g} of {spent + 1.5 * EPSILON:g}"
    with jobs.session(cheated.live.home) as line:
        run, job = cheated.live.begin(line, again)
        for name, request in cheated.shown(again).items():
            lines = request_lines(request, cheated.live.centers[name])
            assert any(line.startswith(before) for line in lines)
            assert any("“first”: noise, epsilon" in line for line in lines)
        cheated.live.approve(again)
        ended(line, job)
        assert run.failure() is None
        assert [each.name for each in cheated.payments("A")][-2:] == ["first", "again"]
        left = cheated.left()
        run, _ = cheated.live.run(line, once_more)
    faults = cheated.failure(run).faults
    assert len(faults) == len(NAMES)
    assert all("(epsilon: 2 needed, " in fault for fault in faults)
    assert cheated.left() == left
    cheated.allow(100.0)


def test_a_center_that_is_dropped_ends_the_study(cheated: Cheated) -> None:
    cheated.attack("drop")
    with jobs.session(cheated.live.home) as line:
        run, _ = cheated.live.run(line, cheated.live.named("dropped"))
    cheated.failure(run)
    others = [row for row in cheated.answers if row["center"] != cheats.DROPPED]
    assert {row["center"] for row in others} == {"A", "B", "C"}
    refused = {row["center"] for row in others if row["refused"] in ("attendance", "sum")}
    assert refused == {"A", "B", "C"}
    assert not any(row["step"] == "release" and row["refused"] is None for row in others)


def test_an_edited_study_waits_for_another_approval(cheated: Cheated) -> None:
    cheated.attack("none")
    approved = cheated.live.named("to be edited")
    cheated.live.approve(approved)
    edited = Study.parse(approved.to_toml().replace("max = 120", "max = 110"))
    assert edited != approved
    left = cheated.left()
    with jobs.session(cheated.live.home) as line:
        run, job = cheated.live.begin(line, edited)
        shown = cheated.shown(edited)
        run.ask_to_stop()
        line.abort(job)
        ended(line, job)
    assert cheated.live.code(edited) != cheated.live.code(approved)
    for name, request in shown.items():
        assert "  age: a number from 0 to 110" in request_lines(
            request, cheated.live.centers[name]
        )
    assert cheated.left() == left
