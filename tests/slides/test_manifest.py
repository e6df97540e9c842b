"""Slides and patients as tables: everything that is wrong with one is told at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import CohortError
from fedcox.slides.manifest import (
    OutcomeColumns,
    PatientTable,
    SlideManifest,
    read_patient_names,
)

HEADER = "slide_id,patient_id,center,path\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_slides_by_patient_and_center(tmp_path: Path) -> None:
    text = HEADER + "b,p2,west,b.svs\na1,p1,north,/far/a1.svs\na2,p1,north,\n"
    manifest = SlideManifest.read(written(tmp_path, text))
    assert [row.slide_id for row in manifest.slides] == ["b", "a1", "a2"]
    assert [row.path for row in manifest.slides] == [
        tmp_path / "b.svs",
        Path("/far/a1.svs"),
        None,
    ]
    assert manifest.centers == ("north", "west")
    assert {name: len(rows) for name, rows in manifest.patients.items()} == {"p2": 1, "p1": 2}
    kept = manifest.of_patients(frozenset({"p1"}))
    assert [row.slide_id for row in kept.slides] == ["a1", "a2"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_as_spreadsheets_write_them(delimiter: str, tmp_path: Path) -> None:
    text = "\ufeffpath, slide_id ,note,patient_id,center\n x.svs, s 1 ,,p,c\n,,,,\n"
    manifest = SlideManifest.read(written(tmp_path, text.replace(",", delimiter)))
    assert [row.slide_id for row in manifest.slides] == ["s 1"]
    assert manifest.slides[0].path == tmp_path / "x.svs"


def test_names_that_some_disk_would_not_keep_apart_are_refused(tmp_path: Path) -> None:
    rows = 'S1,p,c,\ns1,p,c,\nend.,p,c,\n"two\nlines",p,c,\n'
    with pytest.raises(CohortError) as error:
        SlideManifest.read(written(tmp_path, HEADER + rows))
    assert len(error.value.faults) == 2
    assert "2 slide_id(s) cannot be names of files: end., two?lines." in error.value.faults[0]
    assert "differ in small and capital letters only: S1, s1." in error.value.faults[1]


def test_a_row_that_is_too_short_is_told_by_its_line_in_the_file(tmp_path: Path) -> None:
    rows = "a,p,c,x.svs\r\n\r\nb,p,c\r\n"
    path = tmp_path / "table.csv"
    path.write_bytes(HEADER.replace("\n", "\r\n").encode() + rows.encode())
    with pytest.raises(CohortError, match="line 4"):
        SlideManifest.read(path)


def test_all_faults_of_a_manifest_are_told_at_once(tmp_path: Path) -> None:
    rows = "a,p1,c1,\na,p2,c1,\n,p3,c1,\nb,,c1,\nd,p1,c2,\n../e,p4,c1,\n.f,p5,c1,\ng,p6,,\n"
    with pytest.raises(CohortError) as error:
        SlideManifest.read(written(tmp_path, HEADER + rows))
    told = "\n".join(error.value.faults)
    assert len(error.value.faults) == 6
    assert "1 row(s) have no slide_id" in told
    assert "1 row(s) have no patient_id" in told
    assert "1 row(s) have no center" in told
    assert "1 slide_id(s) are there more than once: a." in told
    assert "2 slide_id(s) cannot be names of files: ../e, .f." in told
    assert "1 patient(s) have slides in more than one center" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("slide_id,center,path\na,b,c\n", "no column 'patient_id'; found 'slide_id'"),
        (HEADER, "has no row"),
        ("", "has no row"),
        (HEADER + "a,b,c\n", "1 row"),
        (HEADER + "a,b,c,d,e\n", "line 2"),
        ("slide_id,slide_id,patient_id,center,path\na,b,c,d,e\n", "more than once"),
    ],
)
def test_tables_that_cannot_be_read_are_told(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(CohortError) as error:
        SlideManifest.read(written(tmp_path, text))
    assert told in str(error.value)


def test_files_that_are_not_there_or_no_text_are_told(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="No such file"):
        SlideManifest.read(tmp_path / "nowhere.csv")
    (tmp_path / "latin.csv").write_bytes("slide_id,é\n".encode("latin-1"))
    with pytest.raises(CohortError, match="UTF-8"):
        SlideManifest.read(tmp_path / "latin.csv")


def test_outcomes_by_the_names_and_values_of_the_file(tmp_path: Path) -> None:
    usual = PatientTable.read(
        written(tmp_path, "patient_id,time,event\np1,3.5,1\np2,4,no\np3,0,TRUE\n")
    )
    assert usual.patients == ("p1", "p2", "p3")
    np.testing.assert_array_equal(usual.time, [3.5, 4.0, 0.0])
    np.testing.assert_array_equal(usual.event, [True, False, True])
    named = OutcomeColumns("who", "days", "status", event_value="dead")
    other = PatientTable.read(
        written(tmp_path, "status;who;days\ndead;a;1\nalive;b;2\nlost;c;3\n"), named
    )
    np.testing.assert_array_equal(other.event, [True, False, False])


def test_all_faults_of_outcomes_are_told_without_a_patients_value(tmp_path: Path) -> None:
    rows = "secret,-17,1\nsecret,,2\n,8,dead\nq,inf,0\n"
    with pytest.raises(CohortError) as error:
        PatientTable.read(written(tmp_path, "patient_id,time,event\n" + rows))
    told = str(error.value)
    assert len(error.value.faults) == 5
    for needed in ("1 row(s) name no patient", "1 patient(s) are there more than once"):
        assert needed in told
    for needed in ("2 patient(s) have no time", "1 patient(s) have a time below zero"):
        assert needed in told
    assert "2 patient(s) have neither 1 nor 0 in column 'event'" in told
    assert "secret" not in told
    assert "17" not in "".join(error.value.faults)


def test_an_event_value_that_nobody_has_is_told(tmp_path: Path) -> None:
    table = written(tmp_path, "patient_id,time,event\np,1,Dead\nq,2,\n")
    with pytest.raises(CohortError) as error:
        PatientTable.read(table, OutcomeColumns(event_value="dead"))
    assert "No patient has the value 'dead'" in str(error.value)
    assert "1 patient(s) have no value of 'event'" in str(error.value)


def test_a_list_of_patients(tmp_path: Path) -> None:
    assert read_patient_names(written(tmp_path, "patient_id,fold\np1,1\np2,1\n")) == {
        "p1",
        "p2",
    }
    with pytest.raises(CohortError, match="more than once"):
        read_patient_names(written(tmp_path, "patient_id\np1\np1\n"))
