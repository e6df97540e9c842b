from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from fedcox.cli.audit import FILE, NO_PROOF
from fedcox.evaluation.audit import Audit, AuditedAttack, Outcome
from fedcox.evaluation.noise_audit import NoiseAudit
from fedcox.evaluation.protection import Protection
from tests.cli.conftest import STUDY, Files, Run, invented


@pytest.fixture(autouse=True)
def _grouped(files: Files) -> None:
    """The attacks are written for grouped time."""
    files.study.write_text(STUDY + '\n[model]\nlink = "cloglog"\n', encoding="utf-8")


def words(files: Files, *more: str | Path) -> list[str | Path]:
    given: list[str | Path] = ["audit", files.study, "--data", files.data]
    return [*given, "--center-column", "hospital", *more]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attacks are enough to see what is printed and written."""
    from fedcox.evaluation import audit as module
    from fedcox.evaluation.attacks.suite import ATTACKS

    chosen = [attack for attack in ATTACKS if "batches of one" in attack.name]
    chosen += [attack for attack in ATTACKS if "WebDISCO" in attack.name]
    run = module.audit
    monkeypatch.setattr(
        module,
        "audit",
        lambda study, centers, policies, watch: run(
            study, centers, policies, attacks=chosen, watch=watch
        ),
    )


@pytest.mark.usefixtures("quick")
def test_an_audit_prints_counts_by_attack_and_protection(files: Files, fedcox: Run) -> None:
    ended = fedcox(*words(files))
    assert ended.status == 0
    for protection in ("none", "limits", "secure sums", "both"):
        assert protection in ended.out
    assert "batches of one patient *" in ended.out
    assert "refused: questions" in ended.out
    assert NO_PROOF in " ".join(ended.out.split())
    assert "60 patients in 3 centers" in ended.out
    assert "Not tried: differential privacy" in ended.out


@pytest.mark.usefixtures("quick")
def test_an_audit_shows_no_patients_value(files: Files, fedcox: Run) -> None:
    marked = invented()
    marked["age"] = np.linspace(50.123, 80.789, len(marked)).round(5)
    marked.to_csv(files.data, index=False)
    run = files.folder / "audit"
    ended = fedcox(*words(files, "--out", run))
    told = ended.out + ended.err + (run / FILE).read_text(encoding="utf-8")
    assert not re.search(r"\d+\.\d{3,}", told)
    assert not [name for name in marked["patient"] if name in told]


@pytest.mark.usefixtures("quick")
def test_the_folder_holds_one_file_and_is_replaced_only_when_told(
    files: Files, fedcox: Run
) -> None:
    run = files.folder / "audit"
    assert fedcox(*words(files, "--out", run)).status == 0
    assert [path.name for path in run.iterdir()] == [FILE]
    record = json.loads((run / FILE).read_text(encoding="utf-8"))
    assert record["protections"] == ["none", "limits", "secure sums", "both"]
    before = files.listing()
    again = fedcox(*words(files, "--out", run))
    assert again.status == 2
    assert "exists already" in again.err
    assert files.listing() == before
    assert fedcox(*words(files, "--out", run, "--overwrite")).status == 0


@pytest.mark.parametrize(
    ("protection", "status"), [(Protection.BOTH, 1), (Protection.SECURE_SUMS, 0)]
)
def test_a_patient_recovered_under_both_is_status_1(
    files: Files,
    fedcox: Run,
    monkeypatch: pytest.MonkeyPatch,
    protection: Protection,
    status: int,
) -> None:
    outcomes = {each: Outcome(int(each is protection), 60, 1) for each in Protection}
    result = Audit(60, 3, tuple(Protection), {}, (AuditedAttack("an attack", False, outcomes),))
    monkeypatch.setattr("fedcox.evaluation.audit.audit", lambda *_, **__: result)
    assert fedcox(*words(files)).status == status


@pytest.mark.parametrize(
    ("proven", "sampled", "status", "told"),
    [
        (
            0.8,
            False,
            0,
            "epsilon 1 is claimed for all rounds together; an attack on 200 replies",
        ),
        (0.8, True, 0, "for one round and a patient who is known to be drawn"),
        (7.0, False, 1, "proves at least 7. The claim is wrong."),
        (math.inf, False, 1, "proves at least 50. The claim is wrong."),
    ],
)
def test_a_claimed_epsilon_is_shown_beside_what_is_proven(
    files: Files,
    fedcox: Run,
    monkeypatch: pytest.MonkeyPatch,
    proven: float,
    sampled: bool,
    status: int,
    told: str,
) -> None:
    noise = NoiseAudit("clipped gradient", 1.0, 1e-5, proven, 1.0, 100, sampled)
    outcomes = {Protection.NOISE: Outcome(0, 0, 0)}
    result = Audit(
        60,
        3,
        (Protection.NOISE,),
        {},
        (AuditedAttack("an attack", False, outcomes),),
        (noise,),
    )
    monkeypatch.setattr("fedcox.evaluation.audit.audit", lambda *_, **__: result)
    ended = fedcox(*words(files, "--out", files.folder / "audit"))
    assert ended.status == status
    assert told in " ".join(ended.out.split())
    assert re.search(r"an attack\W+–", ended.out), "nobody was attacked"
    record = json.loads((files.folder / "audit" / FILE).read_text(encoding="utf-8"))
    (written,) = record["differential_privacy"]
    assert written["lower_bound"] == (None if math.isinf(proven) else proven)


def test_an_epsilon_that_was_not_attacked_is_said_to_be_so(
    files: Files, fedcox: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = {Protection.NOISE: Outcome(0, 0, 0, "[questions] allowed")}
    attacked = (AuditedAttack("an attack", False, outcomes),)
    result = Audit(60, 3, (Protection.NOISE,), {}, attacked)
    monkeypatch.setattr("fedcox.evaluation.audit.audit", lambda *_, **__: result)
    assert "not audited, since nothing was sent under noise" in fedcox(*words(files)).out


def test_a_policy_of_a_stranger_is_refused(files: Files, fedcox: Run) -> None:
    ended = fedcox(*words(files, "--policy", "east=default"))
    assert ended.status == 2
    assert "'east' is not among north, south, west" in ended.err


@pytest.mark.usefixtures("quick")
def test_a_centers_own_policy_is_used(files: Files, fedcox: Run) -> None:
    loose = files.folder / "loose.toml"
    loose.write_text('exact_sums = true\nquestions = "all"\n', encoding="utf-8")
    run = files.folder / "audit"
    fedcox(*words(files, "--policy", loose, "--out", run))
    record = json.loads((run / FILE).read_text(encoding="utf-8"))
    (batches,) = [one for one in record["attacks"] if "batches of one" in one["name"]]
    assert batches["outcomes"]["limits"]["refused"] is None


def test_nothing_is_read_before_the_arguments_are_clear(files: Files, fedcox: Run) -> None:
    ended = fedcox("audit", files.study)
    assert ended.status == 2
    assert "--data FILE, or --center NAME=FILE" in ended.err


@pytest.mark.parametrize("text", [STUDY, STUDY[: STUDY.index("[grid]")]])
def test_a_study_with_exact_time_is_told_to_group_it(
    files: Files, fedcox: Run, text: str
) -> None:
    files.study.write_text(text, encoding="utf-8")
    before = files.listing()
    ended = fedcox(*words(files, "--out", files.folder / "audit"))
    assert ended.status == 2
    told = " ".join(ended.err.split())
    assert "written for grouped time" in told
    assert 'name link = "cloglog" in [model] and a width in [grid]' in told
    assert files.listing() == before
