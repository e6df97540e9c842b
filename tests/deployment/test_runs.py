"""Runs of a study in the coordinator's folder: begun, gone on with, replaced."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from fedcox.deployment import runs as run_start
from fedcox.deployment import server
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.deployment.processes import Running
from fedcox.deployment.runs import RunFolder, begin, run_lock
from fedcox.errors import InputError
from fedcox.study.study import Study
from tests.deployment.hospitals import CENTERS, PLAIN, study


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoordinatorFolder:
    monkeypatch.setattr(server, "running", lambda folder: Running(1, 0.0))
    monkeypatch.setattr(run_start, "_PATIENCE", 0.0)
    return CoordinatorFolder(
        tmp_path, "lung", "localhost", 8002, CENTERS, date(2026, 1, 1), date(2099, 1, 1)
    )


def begun(
    home: CoordinatorFolder, plan: Study, *, resume: bool = False, overwrite: bool = False
) -> RunFolder:
    return begin(home, plan, "", resume=resume, overwrite=overwrite, wait=0.0)


@pytest.mark.parametrize("how", ["resume", "overwrite"])
def test_a_run_that_is_at_work_is_left_alone(home: CoordinatorFolder, how: str) -> None:
    run = begun(home, study())
    run.tell("code")
    with run.alone(0.0), pytest.raises(InputError, match="still at work"):
        begun(home, study(), resume=how == "resume", overwrite=how == "overwrite")
    assert run.progress.exists()
    begun(home, study(), resume=how == "resume", overwrite=how == "overwrite")


def test_a_run_that_was_stopped_by_hand_goes_on_without_that_word(
    home: CoordinatorFolder,
) -> None:
    run = begun(home, study())
    run.ask_to_stop()
    begun(home, study(), resume=True)
    assert not run.stop.exists()


def test_two_commands_do_not_run_one_study(home: CoordinatorFolder) -> None:
    again = run_lock(home, study())
    with run_lock(home, study()), pytest.raises(InputError, match="Another"), again:
        pytest.fail("both are at work")


def test_a_run_of_another_study_is_not_replaced(home: CoordinatorFolder) -> None:
    run = begun(home, study())
    other = study(PLAIN.replace('"lung"', '"Lung!"'))
    for overwrite in (False, True):
        with pytest.raises(InputError, match="another study, “lung”"):
            begun(home, other, overwrite=overwrite)
    assert Study.read(run.study) == study()


def test_a_new_run_does_not_forget_whom_masked_sums_went_on_without(
    home: CoordinatorFolder,
) -> None:
    begun(home, study()).leave_out(["Cork"])
    assert begun(home, study(), overwrite=True).left_out() == ("Cork",)
    # Hospitals remember a changed study as another one.
    changed = study(PLAIN.replace("width = 60", "width = 30"))
    assert begun(home, changed, overwrite=True).left_out() == ()


def test_a_changed_comment_is_the_same_study(home: CoordinatorFolder) -> None:
    begun(home, study())
    begun(home, study(PLAIN + "\n# as agreed in May\n"), resume=True)
    with pytest.raises(InputError, match="another study file"):
        begun(home, study(PLAIN.replace("width = 60", "width = 30")), resume=True)
