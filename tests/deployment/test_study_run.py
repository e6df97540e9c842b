"""A study over hospitals, start to end, with everything real but the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.deployment.approval import Request
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.runs import RunFolder
from fedcox.deployment.study_run import identities, run_study
from fedcox.deployment.study_words import request_lines
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.nvflare.center_end import Invitation, NotNowError
from fedcox.engines.nvflare.coordinator_end import CoordinatorEnd
from fedcox.engines.nvflare.messages import Refusal
from fedcox.engines.nvflare.transport import Heard, Silence
from fedcox.errors import InputError
from fedcox.privacy.budget import Budget
from fedcox.privacy.identity import Identity
from fedcox.reports.run_folder import read_run
from fedcox.study.fit import fit
from fedcox.study.fit_rows import Coefficient
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from fedcox.study.study import Study
from fedcox.study.study_tables import Noise
from tests.deployment.hospitals import CENTERS, PLAIN, SECURE, STUDY, Hospitals, frames, study
from tests.engines.nvflare.direct_transport import DirectTransport, Tamper
from tests.engines.nvflare.wrong_answers import read_spoilt_ones_too

#: Sums between hospitals without noise are told to the reader.
pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.ExactSumsWarning")


@pytest.fixture
def hospitals(tmp_path: Path) -> Hospitals:
    return Hospitals(tmp_path)


def exact_sums(folder: Path, rounds: int = 200) -> str:
    """A policy that lets sums leave without noise."""
    policy = folder / "exact.toml"
    policy.write_text(f"exact_sums = true\nrounds = {rounds}\n")
    return str(policy)


def in_one_process(text: str = PLAIN) -> FittedStudy:
    plan = study(text)
    return fit(plan, InProcess.from_frame(plan, frames(), apart=True))


def approved(hospitals: Hospitals, text: str = PLAIN) -> None:
    """Every data manager approves before the study comes."""
    hospitals.approve(text)


def conducted(
    hospitals: Hospitals,
    text: str = PLAIN,
    tamper: Tamper = lambda name, call, answer: answer,
    line: DirectTransport | None = None,
    name: str = "run",
) -> RunFolder:
    run = hospitals.run(text, name)
    run_study(run, line or hospitals.line(tamper), hospitals.names, wait=0.0, pause=0.0)
    return run


def result(run: RunFolder) -> FittedStudy:
    failure = run.failure()
    if failure is not None:
        raise failure
    return read_run(run.result)


def close(found: list[float | None], expected: list[float | None], **how: float) -> None:
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), **how)  # type: ignore[call-overload]


def told(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.progress.read_text().splitlines()]


def assert_near(row: Coefficient, other: Coefficient) -> None:
    """A file's numbers beside those of a fit in memory."""
    assert other.coef is not None
    assert other.se is not None
    assert row.coef == pytest.approx(other.coef, abs=1e-3 * other.se)
    assert row.se == pytest.approx(other.se, rel=1e-3)


def assert_same_file(found: FittedStudy, expected: FittedStudy) -> None:
    """Every number as files have it, but the c-index, which needs all patients in one place."""
    found, expected = released(found), released(expected)
    for name in (
        "coefficients",
        "baseline",
        "log_likelihood",
        "null_log_likelihood",
        "likelihood_ratio",
        "converged",
        "rounds",
        "bytes_up",
        "bytes_down",
        "convergence",
        "notices",
        "patients",
        "events",
        "ledger",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.edges.tobytes() == expected.edges.tobytes()


def test_the_file_is_that_of_one_process(hospitals: Hospitals) -> None:
    approved(hospitals)
    assert_same_file(result(conducted(hospitals)), in_one_process())


@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_whatever_a_center_answers_costs_that_center_alone(
    hospitals: Hospitals, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved(hospitals, text)
    refused = read_spoilt_ones_too(monkeypatch)
    found, expected = result(conducted(hospitals, text)), in_one_process(text)
    for row, other in zip(found.coefficients, expected.coefficients, strict=True):
        assert_near(row, other)
    assert len(refused) >= 20
    assert min(refused) > 50


@pytest.mark.parametrize("patients", [-1, 10**9 + 1, 2**60, True, 3.0])
def test_a_center_that_says_an_absurd_number_of_patients_is_the_one_left_out(
    hospitals: Hospitals, patients: object
) -> None:
    def tamper(name: str, call: int, answer: bytes) -> bytes:
        tree: Any = from_bytes(answer)
        if name == "Bern" and tree["step"] == "study":
            tree["body"]["patients"] = patients
        return to_bytes(tree)

    approved(hospitals)
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, tamper=tamper))
    assert caught.value.faults == (
        "Bern: its answer cannot be used: It does not say how many patients it has.",
    )


def test_nothing_is_answered_before_approval(hospitals: Hospitals) -> None:
    run = conducted(hospitals)
    with pytest.raises(InputError, match="0 centers are left, and the study needs 3") as caught:
        result(run)
    assert len(caught.value.faults) == 3
    assert all("not approved the study yet" in fault for fault in caught.value.faults)
    for name, folder in hospitals.folders.items():
        assert not folder.ledger.exists()
        (request,) = hospitals.approvals(name).waiting()
        assert request.name == "lung"
    assert not run.result.exists()


def test_a_data_manager_may_say_yes_while_the_coordinator_waits(hospitals: Hospitals) -> None:
    line = hospitals.line()
    run = hospitals.run()

    def say_yes_once_it_was_shown(name: str, call: int, answer: bytes) -> bytes:
        if call == 2 and name == CENTERS[-1]:
            hospitals.approve(unseen=False)
        return answer

    line.tamper = say_yes_once_it_was_shown
    run_study(run, line, CENTERS, wait=60.0, pause=0.0)
    assert_same_file(result(run), in_one_process())
    waited = [line for line in told(run) if line["kind"] == "waiting"]
    assert set(waited[0]["reasons"]) == set(CENTERS)


def test_a_declined_study_is_told_by_the_center_s_name(hospitals: Hospitals) -> None:
    approved(hospitals)
    hospitals.approvals("Bern").decide(hospitals.code(), approve=False)
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals))
    assert caught.value.faults == ("Bern: its data manager has declined the study.",)


def test_who_takes_no_part_is_told_where_the_study_goes_on(hospitals: Hospitals) -> None:
    def unstarted(name: str, call: int, answer: bytes) -> bytes | Silence:
        return Silence("its process did not start") if name == "Bern" else answer

    text = PLAIN + "\n[attendance]\nneeded = 2\n"
    hospitals.approve(text, away="Bern")
    run = conducted(hospitals, text, unstarted)
    assert "Bern" not in {center.name for center in result(run).centers}
    without = [each["reasons"] for each in told(run) if each["kind"] == "without"]
    assert without == [{"Bern": "its process did not start"}]


def test_approval_is_of_one_study_file(hospitals: Hospitals) -> None:
    approved(hospitals)
    with pytest.raises(InputError, match="needs 3"):
        result(conducted(hospitals, PLAIN.replace("width = 60", "width = 30")))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.rename(columns={"age": "alter"}), "its file does not fit"),
        (lambda table: table.assign(age=table["age"] * 12), "its file does not fit"),
        (lambda table: table.assign(stage="IV"), "its file does not fit"),
        (lambda table: table.drop(columns="days"), "its file does not fit"),
    ],
    ids=["another column", "other units", "other categories", "another study's file"],
)
def test_a_file_that_does_not_fit_is_told_without_its_content(
    hospitals: Hospitals, change: Any, reason: str
) -> None:
    approved(hospitals)
    file = hospitals.path / "files" / "Bern.csv"
    change(frames()["Bern"]).to_csv(file, index=False)
    run = conducted(hospitals)
    with pytest.raises(InputError) as caught:
        result(run)
    (fault,) = caught.value.faults
    assert fault == f"Bern: {reason} the study."
    assert "Bern.csv" in hospitals.folders["Bern"].trouble.read_text()


def test_the_order_of_columns_does_not_matter(hospitals: Hospitals) -> None:
    approved(hospitals)
    file = hospitals.path / "files" / "Bern.csv"
    table = frames()["Bern"]
    table[table.columns[::-1]].to_csv(file, index=False)
    assert_same_file(result(conducted(hospitals)), in_one_process())


def test_another_version_is_told(hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch) -> None:
    approved(hospitals)
    monkeypatch.setattr("fedcox.deployment.study_run.version", lambda name: "0.0.1")
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals))
    assert caught.value.faults == tuple(
        f"{name}: it runs another version of fedcox." for name in CENTERS
    )


def test_secure_sums_give_the_same_numbers(hospitals: Hospitals) -> None:
    approved(hospitals, SECURE)
    found, plain = result(conducted(hospitals, SECURE)), in_one_process(SECURE)
    for row, other in zip(found.coefficients, plain.coefficients, strict=True):
        assert_near(row, other)
    assert {row.protection for row in found.ledger} == {"keys", "masks"}


def test_where_masks_were_agreed_nothing_leaves_without_one(hospitals: Hospitals) -> None:
    approved(hospitals, SECURE)
    conducted(hospitals, SECURE)
    for folder in hospitals.folders.values():
        rows = [json.loads(line) for line in folder.ledger.read_text().splitlines()]
        assert {row["protection"] for row in rows} == {"masks"}


def test_with_limits_on_the_study_runs_and_is_the_same(tmp_path: Path) -> None:
    limited = Hospitals(tmp_path, policy=exact_sums(tmp_path))
    approved(limited, SECURE)
    found, plain = result(conducted(limited, SECURE)), in_one_process(SECURE)
    for row, other in zip(found.coefficients, plain.coefficients, strict=True):
        assert_near(row, other)


@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_exact_sums_leave_only_where_every_hospital_s_policy_says_so(
    tmp_path: Path, text: str
) -> None:
    hospitals = Hospitals(tmp_path, policies={"Cork": "default"})
    approved(hospitals, text)
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, text))
    assert caught.value.faults == ("Cork: its own policy refuses (exact_sums).",)
    assert not any(folder.ledger.exists() for folder in hospitals.folders.values())
    assert "exact_sums = true" in hospitals.folders["Cork"].trouble.read_text()


def test_a_study_without_a_word_on_noise_is_refused_before_anybody_is_asked(
    hospitals: Hospitals,
) -> None:
    line = hospitals.line()
    with pytest.raises(InputError, match="cannot be run between these hospitals") as caught:
        result(conducted(hospitals, STUDY, line=line))
    assert any("[privacy.noise] patients" in fault for fault in caught.value.faults)
    assert line.calls == []


def test_what_a_study_leaves_open_is_spelled_out_for_hospitals(hospitals: Hospitals) -> None:
    text = STUDY + "\n[privacy.noise]\npatients = 630\n"
    assert conducted(hospitals, text).failure() is not None
    for name in hospitals.names:
        (request,) = hospitals.approvals(name).waiting()
        privacy = Study.parse(request.study).privacy
        assert privacy.secure_sums is True
        assert isinstance(privacy.noise, Noise)
        assert (privacy.noise.price, privacy.noise.delta) == (0.05, 1e-5)
        assert request.code == hospitals.code(text)


def without_down(fitted: FittedStudy) -> FittedStudy:
    rows = tuple(row._replace(numbers_down=0, bytes_down=0) for row in fitted.ledger)
    return replace(fitted, bytes_down=0, ledger=rows)


def lost_after(center: str, calls: int) -> Tamper:
    def tamper(name: str, call: int, answer: bytes) -> bytes | Silence:
        return Silence("no answer") if name == center and call > calls else answer

    return tamper


def test_by_default_every_center_must_answer(hospitals: Hospitals) -> None:
    approved(hospitals)
    run = conducted(hospitals, tamper=lost_after("Cork", 4))
    with pytest.raises(InputError) as caught:
        result(run)
    assert caught.value.subject == "2 centers are left, and the study needs 3."
    assert caught.value.faults == ("Cork: no answer.",)
    assert not run.result.exists()


@pytest.mark.parametrize("calls", range(1, 9))
def test_it_goes_on_after_a_crash_with_the_same_bits(hospitals: Hospitals, calls: int) -> None:
    approved(hospitals)
    run = conducted(hospitals, tamper=lost_after("Cork", calls))
    assert run.failure() is not None
    line = hospitals.line()
    found, expected = result(conducted(hospitals, line=line)), in_one_process()
    # After a crash the centers need the setting again, and that is written down.
    assert_same_file(without_down(found), without_down(expected))
    # Keys and the invitation again, and the rounds that were not finished.
    assert len(line.calls) == 2 + in_one_process().rounds - max(0, calls - 2)


def test_where_the_study_allows_it_the_rest_goes_on(hospitals: Hospitals) -> None:
    text = PLAIN + "\n[attendance]\nneeded = 2\n"
    approved(hospitals, text)
    found = result(conducted(hospitals, text, lost_after("Cork", 4)))
    plan = study(text)
    others = {name: table for name, table in frames().items() if name != "Cork"}
    alone = fit(plan, InProcess.from_frame(plan, others, apart=True))
    for row, other in zip(found.coefficients, alone.coefficients, strict=True):
        assert_near(row, other)
    assert "LostCentersWarning" in {notice.name for notice in found.notices}
    assert [row.name for row in found.centers] == ["Aachen", "Bern"]


def test_a_center_that_is_not_connected_is_missing(hospitals: Hospitals) -> None:
    approved(hospitals)
    line = hospitals.line()
    line.sites = {name: site for name, site in line.sites.items() if name != "Aachen"}
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, line=line))
    assert caught.value.faults == ("Aachen: it is not connected.",)


@pytest.mark.parametrize("calls", [3, 9, 18])
@pytest.mark.parametrize("limited", [False, True])
def test_secure_sums_go_on_after_a_crash(tmp_path: Path, calls: int, limited: bool) -> None:
    hospitals = Hospitals(tmp_path, exact_sums(tmp_path) if limited else "none")
    approved(hospitals, SECURE)
    run = conducted(hospitals, SECURE, lost_after("Cork", calls))
    assert run.failure() is not None
    found, plain = result(conducted(hospitals, SECURE)), in_one_process(SECURE)
    for row, other in zip(found.coefficients, plain.coefficients, strict=True):
        assert_near(row, other)


def test_a_center_that_masked_sums_went_on_without_stays_out(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, centers=(*CENTERS, "Delft"))
    text = SECURE + "\n[attendance]\nneeded = 3\n"
    approved(hospitals, text)

    def two_go(name: str, call: int, answer: bytes) -> bytes | Silence:
        gone = (name == "Delft" and call > 14) or (name == "Cork" and call > 20)
        return Silence("no answer") if gone else answer

    run = conducted(hospitals, text, two_go)
    assert run.failure() is not None
    found = result(conducted(hospitals, text))
    assert [row.name for row in found.centers] == list(CENTERS)
    alone = fit(study(text), InProcess.from_frame(study(text), frames(), apart=True))
    for row, other in zip(found.coefficients, alone.coefficients, strict=True):
        assert_near(row, other)


def test_limits_are_not_set_back_by_a_new_job(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path / "all", exact_sums(tmp_path, rounds=15))
    approved(hospitals, SECURE)
    result(conducted(hospitals, SECURE, name="one"))
    for name in ("two", "three"):
        with pytest.raises(InputError) as caught:
            result(conducted(hospitals, SECURE, name=name))
        assert all("its own policy refuses (rounds)" in each for each in caught.value.faults)


def test_a_changed_file_is_not_answered_about(hospitals: Hospitals, tmp_path: Path) -> None:
    limited = Hospitals(tmp_path / "limited", policy=exact_sums(tmp_path))
    approved(limited, SECURE)
    result(conducted(limited, SECURE))
    frames()["Bern"].iloc[1:].to_csv(limited.path / "files" / "Bern.csv", index=False)
    with pytest.raises(InputError) as caught:
        result(conducted(limited, SECURE))
    (fault,) = caught.value.faults
    assert fault.startswith("Bern: its patients have changed")


def test_what_left_is_in_each_hospital_s_ledger(hospitals: Hospitals) -> None:
    approved(hospitals)
    found = result(conducted(hospitals))
    for name, folder in hospitals.folders.items():
        kept = [json.loads(line) for line in folder.ledger.read_text().splitlines()]
        here = [row for row in found.ledger if row.center == name]
        assert [(row["question"], row["numbers"], row["protection"]) for row in kept] == [
            (row.query, row.numbers_up, row.protection) for row in here
        ]


def test_the_page_claims_nothing_about_patients_whom_centers_left_out(
    hospitals: Hospitals,
) -> None:
    text = PLAIN + '\n[model]\nmissing = "drop"\n'
    approved(hospitals, text)
    table = frames()["Bern"]
    table.loc[:9, "age"] = None
    table.to_csv(hospitals.path / "files" / "Bern.csv", index=False)
    run = conducted(hospitals, text)
    assert result(run).patients == 620
    page = (run.result / "report.html").read_text()
    assert "none left out" not in page
    assert "answered from its own machine" in page


def test_the_report_of_a_run_reads_like_any_other(hospitals: Hospitals) -> None:
    approved(hospitals)
    run = conducted(hospitals)
    assert sorted(file.name for file in run.result.iterdir()) == [
        "fit.json",
        "ledger.jsonl",
        "report.html",
        "summary.csv",
    ]


def test_batches_under_masks_are_refused_in_words(hospitals: Hospitals) -> None:
    text = SECURE + '\n[solver]\nmethod = "adam"\nbatch_size = 32\n'
    with pytest.raises(InputError, match="Batches of patients cannot be drawn"):
        result(conducted(hospitals, text))


NOISE = """
[privacy]
secure_sums = {masked}

[privacy.noise]
epsilon = 4
patients = 630
"""
#: The noised sums of such a study.
SUMS = 17


@pytest.mark.parametrize("masked", ["true", "false"])
def test_a_privacy_budget_survives_a_crash_and_is_paid_once(
    tmp_path: Path, masked: str
) -> None:
    pytest.importorskip("dp_accounting")
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 5\ndelta = 1e-5\n")
    hospitals = Hospitals(tmp_path / "all", str(policy))
    text = STUDY + NOISE.format(masked=masked)
    approved(hospitals, text)
    run = conducted(hospitals, text, lost_after("Cork", 9))
    assert run.failure() is not None
    found = result(conducted(hospitals, text))
    assert found.guarantee is not None
    assert found.guarantee.epsilon <= 4.0
    for folder in hospitals.folders.values():
        (payment,) = Budget(folder.budget).spent.payments
        assert (payment.name, payment.releases, payment.delta) == ("lung", SUMS, 1e-5)
        assert payment.day == date.today().isoformat()
        assert 3.9 < payment.epsilon <= 4.0


def test_where_no_policy_sets_a_limit_epsilon_is_counted_all_the_same(
    hospitals: Hospitals,
) -> None:
    pytest.importorskip("dp_accounting")
    for number in (1, 2):
        text = STUDY.replace("lung", f"lung {number}") + NOISE.format(masked="true")
        approved(hospitals, text)
        result(conducted(hospitals, text, name=f"run {number}"))
    for folder in hospitals.folders.values():
        spent = Budget(folder.budget).spent
        assert [payment.name for payment in spent.payments] == ["lung 1", "lung 2"]
        assert 7.8 < spent.epsilon <= 8.0


def test_a_study_needs_its_own_words_for_a_missing_timeout() -> None:
    assert Study.parse(STUDY).attendance.timeout is None
    assert "attendance" not in Study.parse(STUDY).to_toml()
    assert Study.parse(STUDY + "\n[attendance]\ntimeout = 20\n").attendance.timeout == 20.0


def exchanges(run: RunFolder) -> list[dict[str, Any]]:
    return [each for each in told(run) if each["kind"] == "exchange"]


def test_empty_rounds_come_between_those_of_the_study(hospitals: Hospitals) -> None:
    approved(hospitals)
    run = hospitals.run()
    run_study(run, hospitals.line(), hospitals.names, pings=3)
    steps = [each["step"] for each in exchanges(run)]
    empty = ["ping"] * 3
    asked = steps.count("ask")
    assert asked > 3
    assert steps == [*empty, "hello", "study", *[*empty, "ask"] * asked, *empty]
    assert_same_file(result(run), in_one_process())


def test_a_center_that_is_gone_after_the_study_takes_nothing_from_it(
    hospitals: Hospitals,
) -> None:
    approved(hospitals)
    messages = len(exchanges(conducted(hospitals)))
    run = hospitals.run(name="again")
    everything = messages + 2 * (messages - 1)  # two empty ones before all but the first
    run_study(run, hospitals.line(lost_after("Cork", everything)), hospitals.names, pings=2)
    assert list(exchanges(run)[-1]["lost"]) == ["Cork"]
    assert len(exchanges(run)) == everything + 1  # one was not answered, then no more
    assert_same_file(result(run), in_one_process())


def test_rounds_on_disk_about_other_patients_are_asked_again(hospitals: Hospitals) -> None:
    approved(hospitals)
    run = conducted(hospitals, tamper=lost_after("Cork", 5))
    assert list(run.checkpoint.iterdir())
    other = frames() | {"Bern": frames()["Bern"].iloc[30:]}
    other["Bern"].to_csv(hospitals.path / "files" / "Bern.csv", index=False)
    expected = fit(study(), InProcess.from_frame(study(), other, apart=True))
    assert_same_file(result(conducted(hospitals)), expected)


class KilledError(BaseException):
    """Nothing of the coordinator runs after it, as after kill -9."""


def test_a_killed_coordinator_knows_whom_masked_sums_went_on_without(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, centers=(*CENTERS, "Delft"))
    text = SECURE + "\n[attendance]\nneeded = 3\n"
    approved(hospitals, text)
    run = hospitals.run(text)

    def one_goes_and_then_the_server(name: str, call: int, answer: bytes) -> bytes | Silence:
        if call > 20:
            raise KilledError
        return Silence("no answer") if name == "Delft" and call > 14 else answer

    line = hospitals.line(one_goes_and_then_the_server)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fail", "tell"):
            patch.setattr(RunFolder, name, lambda *told, **more: None)
        with pytest.raises(KilledError):
            run_study(run, line, hospitals.names, wait=0.0, pause=0.0)
    found = result(conducted(hospitals, text))
    assert [row.name for row in found.centers] == list(CENTERS)


def test_an_approval_can_be_taken_back_while_the_study_runs(hospitals: Hospitals) -> None:
    approved(hospitals)

    def take_back(name: str, call: int, answer: bytes) -> bytes:
        if (name, call) == ("Bern", 4):
            hospitals.approvals("Bern").decide(hospitals.code(), approve=False)
        return answer

    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, tamper=take_back))
    assert caught.value.faults == ("Bern: its data manager has declined the study.",)


def test_a_full_disk_at_a_hospital_lets_no_error_out(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved(hospitals)
    for name in ("ledger", "trouble"):
        monkeypatch.setattr(CenterFolder, name, Path("/dev/full"))
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals))
    assert all("something went wrong" in fault for fault in caught.value.faults)


@pytest.mark.parametrize("masked", ["true", "false"])
@pytest.mark.parametrize("lost_from", [4, 7])
def test_under_noise_a_run_goes_on_from_its_last_round_whoever_is_there(
    tmp_path: Path, masked: str, lost_from: int
) -> None:
    """Begun anew, it would find nothing left of what the hospitals paid."""
    pytest.importorskip("dp_accounting")
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 5\ndelta = 1e-5\n")
    hospitals = Hospitals(tmp_path / "all", str(policy), centers=(*CENTERS, "Delft"))
    text = STUDY + NOISE.format(masked=masked) + "\n[attendance]\nneeded = 3\n"
    approved(hospitals, text)

    def one_goes_and_then_the_rest(name: str, call: int, answer: bytes) -> bytes | Silence:
        gone = call > 9 or (name == "Delft" and call >= lost_from)
        return Silence("no answer") if gone else answer

    run = conducted(hospitals, text, one_goes_and_then_the_rest)
    assert run.failure() is not None
    before = {file.name: file.read_bytes() for file in run.checkpoint.iterdir()}
    found = result(conducted(hospitals, text))
    assert [row.name for row in found.centers] == list(CENTERS)
    assert "LostCentersWarning" in {notice.name for notice in found.notices}
    for name, content in before.items():
        assert (run.checkpoint / name).read_bytes() == content
    for name in CENTERS:
        assert Budget(hospitals.folders[name].budget).spent.epsilon <= 4.0


def test_a_center_that_took_no_part_is_named_in_the_result(hospitals: Hospitals) -> None:
    text = PLAIN + "\n[attendance]\nneeded = 2\n"
    hospitals.approve(text, away="Aachen")
    line = hospitals.line()
    line.sites = {name: site for name, site in line.sites.items() if name != "Aachen"}
    notices = result(conducted(hospitals, text, line=line)).notices
    (notice,) = [each for each in notices if each.name == "LostCentersWarning"]
    assert notice.text.startswith("Aachen took no part.")


def test_no_more_epsilon_is_spent_than_the_approved_study_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dp_accounting")
    import fedcox.study.noised_fit as noised_fit

    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 60\ndelta = 1e-3\n")
    hospitals = Hospitals(tmp_path / "all", str(policy))
    text = STUDY + NOISE.format(masked="false")
    approved(hospitals, text)
    honest = noised_fit.planned

    def with_less_noise(study: Study, centers: int) -> Any:
        solver = honest(study, centers)
        return replace(solver, multiplier=solver.multiplier / 2.0)

    with monkeypatch.context() as patch:
        patch.setattr(noised_fit, "planned", with_less_noise)
        with pytest.raises(InputError) as caught:
            result(conducted(hospitals, text))
    assert all("privacy budget does not cover" in fault for fault in caught.value.faults)
    assert not any(folder.budget.exists() for folder in hospitals.folders.values())
    assert result(conducted(hospitals, text)).guarantee is not None


def test_a_center_without_an_identity_is_lost_by_its_name(hospitals: Hospitals) -> None:
    line = hospitals.line()
    nobody = {"fedcox": "0", "identity": "nobody"}
    line.sites["Bern"].admission.introduce = lambda: nobody  # type: ignore[method-assign]
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, SECURE, line=line))
    assert caught.value.faults == (
        "Bern: its answer cannot be used: It does not say who it is.",
    )


@pytest.mark.parametrize("needed", [3, 4])
@pytest.mark.parametrize("step", ["keys", "shares", "masked", "release"])
def test_one_altered_byte_of_a_masked_message_costs_its_center_alone(
    tmp_path: Path, step: str, needed: int
) -> None:
    names = (*CENTERS, "Delft")
    hospitals = Hospitals(tmp_path, centers=names)
    text = SECURE + f"\n[attendance]\nneeded = {needed}\n"
    approved(hospitals, text)

    def tamper(name: str, call: int, answer: bytes) -> bytes:
        tree: Any = from_bytes(answer)
        if (name, tree["step"], tree["refused"]) != ("Cork", step, None):
            return answer
        place = tree["body"] if step == "masked" else tree
        key = "message" if step == "masked" else "body"
        place[key] = place[key][:-1] + bytes([place[key][-1] ^ 1])
        return to_bytes(tree)

    run = conducted(hospitals, text, tamper)
    (lost,) = (line["lost"] for line in exchanges(run) if line["lost"])
    assert list(lost) == ["Cork"]
    assert "center 'Cork' is not validly signed" in lost["Cork"]
    if needed == len(names):
        with pytest.raises(InputError, match="3 centers are left, and the study needs 4") as no:
            result(run)
        assert no.value.faults == (f"Cork: {lost['Cork']}.",)
        return
    found = result(run)
    others = {name: table for name, table in frames(names).items() if name != "Cork"}
    alone = fit(study(text), InProcess.from_frame(study(text), others, apart=True))
    for row, other in zip(found.coefficients, alone.coefficients, strict=True):
        assert_near(row, other)
    assert [row.name for row in found.centers] == list(others)
    assert any("Cork" in notice.text for notice in found.notices)
    assert run.left_out() == ("Cork",)


@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_filled_cells_are_counted_over_all_hospitals(hospitals: Hospitals, text: str) -> None:
    for name, table in frames().items():
        table.loc[: 2 + len(name), "age"] = np.nan
        table.to_csv(hospitals.path / "files" / f"{name}.csv", index=False)
    text += '\n[model]\nmissing = "mean"\n'
    approved(hospitals, text)
    found = result(conducted(hospitals, text))
    (note,) = [each.text for each in found.notices if each.name == "FilledCellsWarning"]
    cells = sum(3 + len(name) for name in CENTERS)
    assert f"for want of a value: {cells} cells of column 'age'." in note


def test_times_that_may_be_dates_are_told_to_the_hospital_alone(hospitals: Hospitals) -> None:
    text = PLAIN.replace("horizon = 720", "horizon = 18000").replace(
        "width = 60", "width = 600"
    )
    file = hospitals.path / "files" / "Bern.csv"
    table = frames()["Bern"]
    table["days"] += 16_000
    table.to_csv(file, index=False)
    approved(hospitals, text)
    found = result(conducted(hospitals, text))
    assert "nobody has a time below 10,000" in hospitals.folders["Bern"].trouble.read_text()
    assert "10,000" not in hospitals.folders["Cork"].trouble.read_text()
    assert not any("10,000" in note.text for note in found.notices)


class Dropped:
    """A coordinator that leaves a center out of everything it says after so many calls."""

    def __init__(self, line: DirectTransport, center: str, calls: int) -> None:
        self._line, self._center, self._calls = line, center, calls
        self.refused: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        return self._line.names

    def call(self, messages: Mapping[str, bytes], timeout: float, heard: Heard) -> None:
        def told(name: str, answer: bytes | Silence) -> None:
            tree: Any = from_bytes(answer) if isinstance(answer, bytes) else {}
            if tree.get("refused"):
                self.refused.add(tree["refused"]["reason"])
            heard(name, answer)

        if len(self._line.calls) < self._calls:
            self._line.call(messages, timeout, told)
            return
        others = {name: text for name, text in messages.items() if name != self._center}
        self._line.call(others, timeout, told)
        if self._center in messages:
            heard(self._center, Silence("dropped"))


@pytest.mark.parametrize("calls", [2, 3, 5, 6, 8])
@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_hospitals_refuse_a_sum_without_one_of_those_who_were_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, calls: int
) -> None:
    """Whatever the coordinator makes of attendance: by difference it would have one of them."""
    hospitals = Hospitals(tmp_path, centers=(*CENTERS, "Delft"))
    approved(hospitals, text)
    line = Dropped(hospitals.line(), "Delft", calls)
    monkeypatch.setattr(
        "fedcox.deployment.study_run.CoordinatorEnd",
        lambda at, **how: CoordinatorEnd(at, **{**how, "needed": 1}),
    )
    run = hospitals.run(text)
    run_study(run, line, hospitals.names, wait=0.0, pause=0.0)
    assert not run.result.exists()
    assert line.refused & {"attendance", "sum"}
    asked = [each for each in exchanges(run) if each["questions"]]
    finished = sum(len(each["questions"]) for each in asked if not each["lost"])
    for name in CENTERS:
        ledger = hospitals.folders[name].ledger
        left = ledger.read_text().splitlines() if ledger.exists() else []
        # A reply of the round in which one was dropped leaves; under masks it is not opened.
        assert len(left) <= finished + 2


@pytest.mark.parametrize("masked", ["true", "false"])
def test_the_study_s_own_attendance_is_what_hospitals_go_by(
    tmp_path: Path, masked: str
) -> None:
    hospitals = Hospitals(tmp_path, centers=(*CENTERS, "Delft"))
    text = SECURE.replace("secure_sums = true", f"secure_sums = {masked}")
    text += "\n[attendance]\nneeded = 3\n"
    approved(hospitals, text)
    found = result(conducted(hospitals, text, lost_after("Delft", 7)))
    assert [row.name for row in found.centers] == list(CENTERS)


@pytest.mark.parametrize("text", [PLAIN, SECURE], ids=["plain", "secure sums"])
def test_a_key_that_is_not_a_hospital_s_own_is_refused_by_it(
    hospitals: Hospitals, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(*given: Any) -> dict[str, str]:
        return identities(*given) | {"Bern": Identity.create().public.to_text()}

    monkeypatch.setattr("fedcox.deployment.study_run.identities", swapped)
    with pytest.raises(InputError) as caught:
        result(conducted(hospitals, text))
    assert caught.value.faults == (
        "Aachen: its data manager has not approved the study yet.",
        "Bern: the keys that it was shown are not those of the hospitals.",
        "Cork: its data manager has not approved the study yet.",
    )
    # Nor does an approval of the study with the true keys hold for one with another's.
    approved(hospitals, text)
    with pytest.raises(InputError, match="0 centers are left"):
        result(conducted(hospitals, text))


def test_a_budget_that_does_not_cover_a_study_is_told_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("epsilon = 5\ndelta = 1e-3\n")
    hospitals = Hospitals(tmp_path / "all", policies={"Bern": str(policy)})
    first, again = (
        STUDY.replace("lung", name) + NOISE.format(masked="true") for name in ("lung", "again")
    )
    approved(hospitals, first)
    result(conducted(hospitals, first))
    spent = Budget(hospitals.folders["Bern"].budget).spent
    approved(hospitals, again)
    run = conducted(hospitals, again, name="again")
    with pytest.raises(InputError) as caught:
        result(run)
    left = 5.0 - spent.epsilon
    assert caught.value.faults == (
        "Bern: its patients' privacy budget does not cover the study (epsilon: 4 needed, "
        f"{left:.4g} left).",
    )
    assert not any(each["questions"] for each in exchanges(run))
    for name in hospitals.names:
        assert Budget(hospitals.folders[name].budget).spent.studies == 1
    waiting = Request(hospitals.code(again), "again", again, CENTERS, {}, "")
    lines = request_lines(waiting, hospitals.folders["Bern"])
    before = f"Spent before on these patients: epsilon {spent.epsilon:.4g} of 5 allowed"
    assert any(line.startswith(before) for line in lines)
    assert any("“lung”: noise, epsilon" in line for line in lines)
    assert any("does not cover it, so it is refused: epsilon: 4 needed" in one for one in lines)


def test_a_study_that_was_approved_unseen_is_kept_to_be_read_and_said_aloud(
    hospitals: Hospitals,
) -> None:
    approved(hospitals)
    result(conducted(hospitals))
    for name, folder in hospitals.folders.items():
        assert "approved here unseen" in folder.trouble.read_text()
        request = hospitals.approvals(name).find(hospitals.code())
        assert request is not None
        assert request.name == "lung"
        assert hospitals.approvals(name).waiting() == []


def test_two_hospitals_use_noise_alone(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, centers=CENTERS[:2])
    with pytest.raises(InputError, match="cannot be run between these") as caught:
        result(conducted(hospitals, STUDY + NOISE.format(masked="true")))
    assert "2 centers are too few" in caught.value.faults[0]
    alone = STUDY + NOISE.format(masked="false").replace("epsilon = 4", "epsilon = 100")
    approved(hospitals, alone)
    found = result(conducted(hospitals, alone))
    assert {row.protection for row in found.ledger} == {"noise"}


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ("", "[privacy.noise] patients: about how many"),
        ("[privacy.noise]\npatients = 600\nprice = 1e-9\n", "No epsilon below 1000"),
        ("[privacy.noise]\npatients = 9\n", "No epsilon below 1000"),
    ],
    ids=["no word on noise", "too small a price", "too few patients"],
)
def test_a_hospital_refuses_what_the_coordinator_should_have_refused(
    hospitals: Hospitals, noise: str, words: str
) -> None:
    """Before its data manager is asked."""
    text = f"{STUDY}\n{noise}"
    identities = {name: hospitals.identity(name) for name in CENTERS}
    admission = hospitals.line().sites["Bern"].admission
    with pytest.raises(NotNowError) as caught:
        admission.open(Invitation(text, CENTERS, identities, version("fedcox")))
    assert caught.value.reason == Refusal("study")
    assert hospitals.approvals("Bern").waiting() == []
    assert words in hospitals.folders["Bern"].trouble.read_text()


@pytest.mark.parametrize("centers", [("Aachen", "Cork"), ("Aachen", "Bern", "Bern")])
def test_a_list_without_the_hospital_or_with_one_twice_is_refused(
    hospitals: Hospitals, centers: tuple[str, ...]
) -> None:
    identities = {name: hospitals.identity(name) for name in CENTERS}
    admission = hospitals.line().sites["Bern"].admission
    with pytest.raises(NotNowError) as caught:
        admission.open(Invitation(PLAIN, centers, identities, version("fedcox")))
    assert caught.value.reason == Refusal("order")
