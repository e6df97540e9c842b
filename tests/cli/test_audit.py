from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.audit import AttackOutcome, Audit, AuditedAttack, Protection
from fedcox.evaluation.membership import Measured, MembershipAudit
from fedcox.reports.audit_page import NO_PROOF
from tests.cli.conftest import STUDY, Files, Run, invented


def words(files: Files, *more: str | Path) -> list[str | Path]:
    given: list[str | Path] = ["audit", files.study, "--data", files.data]
    return [*given, "--center-column", "hospital", *more]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attacks are enough to see what is printed and written."""
    from fedcox.evaluation import audit as module

    chosen = [attack for attack in ATTACKS if "batches of one" in attack.name]
    chosen += [attack for attack in ATTACKS if "two studies" in attack.name]
    run = module.audit
    monkeypatch.setattr(
        module, "audit", lambda *given, **more: run(*given, attacks=chosen, **more)
    )


@pytest.mark.usefixtures("quick")
def test_an_audit_prints_counts_by_attack_and_protection(files: Files, fedcox: Run) -> None:
    ended = fedcox(*words(files))
    told = " ".join(ended.out.split())
    assert ended.status == 0
    assert "exact sums" in told
    assert "batches of one" in told
    assert "5 of 5" in told
    assert NO_PROOF in told
    assert "of 60 patients were recovered" in told
    assert "Not tried. secure sums and noise:" in told


@pytest.mark.usefixtures("quick")
def test_json_is_printed_alone_and_is_what_is_written(files: Files, fedcox: Run) -> None:
    run = files.folder / "audit"
    ended = fedcox(*words(files, "--json", "--out", run))
    assert json.loads(ended.out) == json.loads((run / "audit.json").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("quick")
def test_an_audit_shows_no_patients_value(files: Files, fedcox: Run) -> None:
    marked = invented()
    marked["age"] = np.linspace(50.123, 80.789, len(marked)).round(5)
    marked.to_csv(files.data, index=False)
    run = files.folder / "audit"
    ended = fedcox(*words(files, "--out", run))
    record = (run / "audit.json").read_text(encoding="utf-8")
    assert not re.search(r"\d+\.\d{3,}", ended.out + ended.err + record)
    told = ended.out + ended.err + record + (run / "audit.html").read_text(encoding="utf-8")
    assert not [name for name in marked["patient"] if name in told]
    assert not [age for age in marked["age"] if str(age) in told]


@pytest.mark.usefixtures("quick")
def test_the_folder_holds_two_files_and_is_replaced_only_when_told(
    files: Files, fedcox: Run
) -> None:
    run = files.folder / "audit"
    assert fedcox(*words(files, "--out", run)).status == 0
    assert sorted(path.name for path in run.iterdir()) == ["audit.html", "audit.json"]
    record = json.loads((run / "audit.json").read_text(encoding="utf-8"))
    assert record["protections"] == ["exact sums", "exact secure sums"]
    before = files.listing()
    again = fedcox(*words(files, "--out", run))
    assert again.status == 2
    assert "exists already" in again.err
    assert files.listing() == before
    assert fedcox(*words(files, "--out", run, "--overwrite")).status == 0


def audit_of(recovered: Protection, proven: float = 0.0) -> Audit:
    outcomes = {each: AttackOutcome(int(each is recovered), 60, 1) for each in Protection}
    measured = Measured(1.0, 0.0, proven)
    member = MembershipAudit(measured, measured, 1e-5, 0.9, 11, 100)
    return Audit(
        "invented",
        60,
        3,
        "log",
        tuple(Protection),
        {},
        (AuditedAttack(ATTACKS[0], outcomes),),
        {Protection.MASKED_NOISE: member},
    )


@pytest.mark.parametrize(
    ("recovered", "proven", "status"),
    [
        (Protection.MASKED_NOISE, 0.0, 1),
        (Protection.NOISE, 0.0, 1),
        (Protection.MASKED, 0.5, 0),
        (Protection.EXACT, 0.5, 0),
        (Protection.MASKED, 1.5, 1),
    ],
)
def test_a_patient_found_under_noise_or_a_wrong_claim_is_status_1(
    files: Files,
    fedcox: Run,
    monkeypatch: pytest.MonkeyPatch,
    recovered: Protection,
    proven: float,
    status: int,
) -> None:
    result = audit_of(recovered, proven)
    monkeypatch.setattr("fedcox.evaluation.audit.audit", lambda *_, **__: result)
    ended = fedcox(*words(files))
    assert ended.status == status
    told = " ".join(ended.out.split())
    assert "Epsilon 1 is claimed for secure sums and noise" in told
    assert ("The claim is wrong." in told) == (proven > 1.0)


def test_a_center_that_the_study_cannot_read_is_an_error(files: Files, fedcox: Run) -> None:
    files.data.write_text("hospital,days\nnorth,3\n", encoding="utf-8")
    ended = fedcox(*words(files, "--out", files.folder / "audit"))
    assert ended.status == 2
    assert not (files.folder / "audit").exists()


def test_nothing_is_read_before_the_arguments_are_clear(files: Files, fedcox: Run) -> None:
    ended = fedcox("audit", files.study)
    assert ended.status == 2
    assert "--data FILE, or --center NAME=FILE" in ended.err


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("link", ["log", "cloglog", "logit"])
def test_every_link_is_audited(files: Files, fedcox: Run, link: str) -> None:
    files.study.write_text(STUDY + f'\n[model]\nlink = "{link}"\n', encoding="utf-8")
    ended = fedcox(*words(files, "--json"))
    assert ended.status == 0
    (studies,) = [one for one in json.loads(ended.out)["attacks"] if "studies" in one["name"]]
    assert studies["outcomes"]["exact sums"]["recovered"] == 5
