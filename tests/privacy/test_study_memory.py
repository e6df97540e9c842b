"""What a hospital remembers of a study outlives its process, whenever and however that ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedcox.privacy.study_memory as module
from fedcox.errors import RefusedError
from fedcox.privacy.noise import GaussianRelease
from fedcox.privacy.study_memory import (
    LastReply,
    Noised,
    Remembered,
    Right,
    StudyMemory,
    fingerprint_of,
)
from fedcox.survival.cohort import Cohort

DAMAGED = r"cannot be trusted"


def cohort(seed: int = 0, patients: int = 30) -> Cohort:
    rng = np.random.default_rng(seed)
    return Cohort(
        rng.normal(size=(patients, 2)),
        rng.uniform(1.0, 9.0, patients),
        rng.uniform(size=patients) < 0.5,
    )


def counted(memory: StudyMemory, questions: int) -> None:
    memory.keep(answered=questions)


vectors = arrays(np.float64, st.integers(0, 4), elements=st.floats(width=64))
names = st.frozensets(st.text(max_size=4), max_size=3)
releases = st.builds(
    GaussianRelease,
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1.0),
    st.integers(1, 10**6),
    st.none() | st.integers(1, 9),
)
memories = st.builds(
    Remembered,
    st.none() | st.text(max_size=5),
    st.integers(0, 10**9),
    st.builds(
        Noised,
        st.dictionaries(releases, st.builds(Right, st.text(max_size=5), st.integers(0, 99))),
        st.lists(st.builds(LastReply, st.binary(max_size=32), vectors), max_size=2).map(tuple),
    ),
    st.none() | names,
)


def bits(value: object) -> object:
    """A record with arrays by their bits: NaN is NaN, and −0 is not 0."""
    if isinstance(value, np.ndarray):
        assert value.dtype == np.float64
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return {bits(key): bits(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [bits(entry) for entry in value]
    if isinstance(value, GaussianRelease | Right) or not hasattr(value, "__dataclass_fields__"):
        return value
    return [bits(getattr(value, name)) for name in value.__dataclass_fields__]


@settings(max_examples=40)
@given(memories)
def test_what_is_written_is_read_bit_for_bit(memory: Remembered) -> None:
    text = json.dumps(memory.to_json(), allow_nan=False)
    assert bits(Remembered.from_json(json.loads(text))) == bits(memory)


@settings(max_examples=15)
@given(memories)
def test_the_next_process_finds_it(
    tmp_path_factory: pytest.TempPathFactory, memory: Remembered
) -> None:
    folder = tmp_path_factory.mktemp("memory") / "study"
    with StudyMemory(folder) as before:
        before.keep(
            cohort=memory.cohort,
            answered=memory.answered,
            noised=memory.noised,
            centers=memory.centers,
        )
    with StudyMemory(folder) as after:
        assert bits(after.now) == bits(memory)


def test_a_study_begins_with_nothing_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / "study"
    with StudyMemory(folder) as memory:
        assert bits(memory.now) == bits(Remembered())
        counted(memory, 1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()] == [0o600]
    assert [entry.name for entry in folder.parent.iterdir()] == ["study"]


def test_one_at_a_time(tmp_path: Path) -> None:
    memory = StudyMemory(tmp_path / "study")
    with pytest.raises(RefusedError, match=r"being answered already"):
        StudyMemory(tmp_path / "study")
    StudyMemory(tmp_path / "other").close()
    memory.close()
    StudyMemory(tmp_path / "study").close()


def test_it_closes_with_the_last_who_knows_it(tmp_path: Path) -> None:
    StudyMemory(tmp_path / "study")
    StudyMemory(tmp_path / "study").close()


def test_once_closed_nothing_is_kept(tmp_path: Path) -> None:
    memory = StudyMemory(tmp_path / "study")
    memory.close()
    with pytest.raises(RefusedError, match=r"closed before"):
        counted(memory, 1)


def _open(folder: Path, told: Any) -> None:
    try:
        with StudyMemory(folder):
            told.send("opened")
            time.sleep(60)
    except RefusedError as error:
        told.send(error.subject)


def test_another_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    first = context.Process(target=_open, args=(tmp_path / "study", theirs), daemon=True)
    first.start()
    assert ours.recv() == "opened"
    with pytest.raises(RefusedError, match=r"being answered already"):
        StudyMemory(tmp_path / "study")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    StudyMemory(tmp_path / "study").close()


@given(data=st.data())
@settings(max_examples=40)
def test_a_file_cut_or_changed_anywhere_is_refused_and_left_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("memory") / "study"
    with StudyMemory(folder) as memory:
        memory.bind(cohort())
        counted(memory, 7)
    file = folder / "study.json"
    whole = file.read_bytes()
    if data.draw(st.booleans(), label="cut"):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        place = data.draw(st.integers(0, len(whole) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
        damaged = whole[:place] + bytes([other]) + whole[place + 1 :]
    file.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(RefusedError, match=DAMAGED):
            StudyMemory(folder)
    assert file.read_bytes() == damaged


@pytest.mark.parametrize("more", [b"\n", b"{}", b"0" * 64 + b"\n"])
def test_more_than_was_written_is_damage(tmp_path: Path, more: bytes) -> None:
    StudyMemory(tmp_path / "study").close()
    with (tmp_path / "study" / "study.json").open("ab") as file:
        file.write(more)
    with pytest.raises(RefusedError, match=DAMAGED):
        StudyMemory(tmp_path / "study")


def test_an_older_or_newer_programs_file_is_refused(tmp_path: Path) -> None:
    StudyMemory(tmp_path / "study").close()
    for body in (b'{"version": 3}', b'{"version": 1}', b"[]", b"null"):
        (tmp_path / "study" / "study.json").write_bytes(module._sealed(body))
        with pytest.raises(RefusedError, match=r"another version"):
            StudyMemory(tmp_path / "study")


def test_a_deleted_file_is_noticed_and_a_deleted_folder_is_a_new_beginning(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "study"
    with StudyMemory(folder) as memory:
        counted(memory, 7)
    (folder / "study.json").unlink()
    with pytest.raises(RefusedError, match=r"study\.json is missing"):
        StudyMemory(folder)
    folder.rmdir()
    with StudyMemory(folder) as memory:
        assert memory.now.answered == 0


def test_a_folder_deleted_under_a_running_study_ends_it(tmp_path: Path) -> None:
    memory = StudyMemory(tmp_path / "study")
    (tmp_path / "study" / "study.json").unlink()
    (tmp_path / "study").rmdir()
    StudyMemory(tmp_path / "study").close()
    with pytest.raises(RefusedError, match=r"nothing is answered"):
        counted(memory, 1)
    with StudyMemory(tmp_path / "study") as other:
        assert other.now.answered == 0


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "study"):
        with pytest.raises(RefusedError, match=r"nothing is answered"):
            StudyMemory(folder)


def test_the_patients_are_those_of_the_first_answer(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with StudyMemory(folder) as memory:
        memory.bind(cohort(0))
        memory.bind(cohort(1))  # the file was mended before anything was answered
        counted(memory, 1)
        memory.bind(cohort(1))
    with StudyMemory(folder) as memory:
        memory.bind(cohort(1))
        for other in (cohort(0), cohort(1, patients=29)):
            with pytest.raises(RefusedError, match=r"patients have changed") as refused:
                memory.bind(other)
            assert "study of a new name" in str(refused.value)
            assert str(folder) in str(refused.value)
        memory.bind(cohort(1))


@pytest.mark.parametrize(
    "part",
    [
        {"answered": 1},
        {"noised": Noised({GaussianRelease(1.0, 1.0): Right("a")})},
        {"centers": frozenset({"A", "B", "C"})},
    ],
    ids=lambda part: next(iter(part)),
)
def test_anything_that_may_have_left_binds_the_patients(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    with StudyMemory(tmp_path / "study") as memory:
        memory.bind(cohort(0))
        memory.keep(**part)
        with pytest.raises(RefusedError, match=r"patients have changed"):
            memory.bind(cohort(1))


@settings(max_examples=60)
@given(st.data())
def test_every_value_of_every_patient_is_in_the_fingerprint(data: st.DataObject) -> None:
    one = cohort()
    covariates, time, event = one.covariates.copy(), one.time.copy(), one.event.copy()
    column = data.draw(st.integers(0, 3))
    row = data.draw(st.integers(0, one.patients - 1))
    if column < 2:
        covariates[row, column] = np.nextafter(covariates[row, column], np.inf)
    elif column == 2:
        time[row] = np.nextafter(time[row], np.inf)
    else:
        event[row] = not event[row]
    assert fingerprint_of(Cohort(covariates, time, event)) != fingerprint_of(one)
    assert fingerprint_of(cohort()) == fingerprint_of(one)
    order = np.arange(one.patients)[::-1]
    turned = Cohort(one.covariates[order], one.time[order], one.event[order])
    assert fingerprint_of(turned) != fingerprint_of(one)


class PowerCut(BaseException):
    """The computer stops here; nothing after it happens."""


def cut_before(monkeypatch: pytest.MonkeyPatch, call: int) -> Callable[[], int]:
    """Stop before the given call of the operating system that changes the disk."""
    calls = 0

    def stopping(name: str) -> None:
        real = getattr(os, name)

        def once(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                raise PowerCut
            return real(*args, **more)

        monkeypatch.setattr(os, name, once)

    for name in ("open", "fdopen", "fsync", "rename", "mkdir"):
        stopping(name)
    return lambda: calls


@pytest.mark.parametrize("begun", [False, True])
def test_power_lost_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    outcomes = set()
    for call in range(1, 100):
        folder = tmp_path / f"study{call}"
        if begun:
            with StudyMemory(folder) as memory:
                counted(memory, 1)
        left = 0
        with monkeypatch.context() as patch:
            cut_before(patch, call)
            try:
                with StudyMemory(folder) as memory:
                    counted(memory, 2)
                    left = 2  # the reply leaves when all is written
            except PowerCut:
                pass
            else:
                break
        with StudyMemory(folder) as memory:
            found = memory.now.answered
            assert found in ((1, 2) if begun else (0, 2))
            assert found >= left
            outcomes.add(found)
            counted(memory, 3)
        with StudyMemory(folder) as memory:
            assert memory.now.answered == 3
    else:
        raise AssertionError
    assert len(outcomes) == 2, "some stops are before and some after the file is replaced"


def test_the_file_is_on_the_disk_before_its_name_and_the_name_before_the_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StudyMemory(tmp_path / "study") as memory:
        done: list[str] = []
        fsync, rename = os.fsync, os.rename

        def synced(handle: int) -> None:
            done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
            fsync(handle)

        def renamed(old: str, new: str, **folders: int) -> None:
            done.append("name")
            rename(old, new, **folders)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "rename", renamed)
        counted(memory, 1)
        assert done == ["file", "name", "folder"]


def test_half_a_file_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new file is written in part when the power goes; the old one stands."""
    folder = tmp_path / "study"
    real = module._sealed
    for length in (0, 1, 200):
        with StudyMemory(folder) as memory, monkeypatch.context() as patch:
            patch.setattr(module, "_sealed", lambda body, length=length: real(body)[:length])
            patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(PowerCut()))
            with pytest.raises(PowerCut):
                counted(memory, 5)
        with StudyMemory(folder) as memory:
            assert memory.now.answered == 0


@pytest.mark.parametrize("name", ["fsync", "rename", "fdopen"])
def test_a_full_disk_refuses_and_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with StudyMemory(tmp_path / "study") as memory:
        counted(memory, 1)
        with monkeypatch.context() as patch:

            def full(*args: Any, **more: Any) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(os, name, full)
            with pytest.raises(RefusedError, match=r"No space left"):
                counted(memory, 2)
        assert memory.now.answered == 1
        counted(memory, 2)
    with StudyMemory(tmp_path / "study") as memory:
        assert memory.now.answered == 2
