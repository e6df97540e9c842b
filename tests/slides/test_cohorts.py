"""Which slides and patients take part; others are named with a reason, and the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import CohortError
from fedcox.slides.bag_file import BagFacts, write_bag
from fedcox.slides.cohorts import opened_bags, slide_cohorts
from fedcox.slides.manifest import ManifestRow, PatientTable, SlideManifest
from tests.slides.foreign_files import (
    WRITERS,
    Tiles,
    invented_tiles,
    overwritten,
    write_stamp,
    write_trident,
)

pytest.importorskip("h5py")
pytest.importorskip("torch")

FACTS = BagFacts("", "raw", encoder="resnet50", encoder_sha256="ab")


def manifest(*rows: str) -> SlideManifest:
    return SlideManifest(tuple(ManifestRow(*row.split()) for row in rows))  # type: ignore[arg-type]


def outcomes(*patients: str) -> PatientTable:
    time = np.arange(1.0, len(patients) + 1)
    return PatientTable(patients, time, time % 2 == 0)


def own(folder: Path, name: str, tiles: int = 5, width: int = 16, **facts: str) -> Path:
    rng = np.random.default_rng(len(name) + tiles)
    path = folder / f"{name}.h5"
    told = replace(FACTS, slide_id=name, **facts)  # type: ignore[arg-type]
    write_bag(path, told, rng.integers(0, 900, (tiles, 2)), rng.normal(size=(tiles, width)))
    return path


def tiles_of(slides: Sequence[object]) -> list[int]:
    return [slide.shape[0] for slide in slides]  # type: ignore[attr-defined]


def test_patients_of_a_center_with_all_their_slides(tmp_path: Path) -> None:
    for name, tiles in (("a1", 3), ("a2", 4), ("b", 5), ("c", 6)):
        own(tmp_path, name, tiles)
    listed = manifest("c p3 south", "a1 p1 north", "b p2 north", "a2 p1 north")
    found = slide_cohorts(listed, outcomes("p1", "p2", "p3"), tmp_path)
    assert set(found.cohorts) == {"north", "south"}
    north = found.cohorts["north"]
    assert found.patient_ids["north"] == ("p1", "p2")
    assert found.slide_ids["north"] == (("a1", "a2"), ("b",))
    np.testing.assert_array_equal(north.time, [1, 2])
    np.testing.assert_array_equal(north.event, [False, True])
    np.testing.assert_array_equal(north.number, [0, 1])
    np.testing.assert_array_equal(found.cohorts["south"].number, [2])
    assert north.bags is not None
    assert [tiles_of(slides) for slides in north.bags.slides] == [[3, 4], [5]]
    assert north.columns == 0
    assert not found.failures
    assert found.opened.encoder == "resnet50"


def test_numbers_of_patients_do_not_depend_on_the_centers(tmp_path: Path) -> None:
    for name in "abcd":
        own(tmp_path, name)
    table = outcomes("p1", "p2", "p3", "p4")
    for centers in ("xxxx", "xyxy", "zyxw"):
        rows = [
            f"{s} p{k} {c}" for k, (s, c) in enumerate(zip("abcd", centers, strict=True), 1)
        ]
        found = slide_cohorts(manifest(*reversed(rows)), table, tmp_path)
        numbers = {
            name: int(number)
            for center, cohort in found.cohorts.items()
            for name, number in zip(found.patient_ids[center], cohort.number, strict=True)
        }
        assert numbers == {"p1": 0, "p2": 1, "p3": 2, "p4": 3}


def test_patients_without_a_slide_and_slides_without_a_patient_are_named(
    tmp_path: Path,
) -> None:
    own(tmp_path, "a")
    own(tmp_path, "b")
    listed = manifest("a p1 north", "b p9 north")
    found = slide_cohorts(listed, outcomes("p1", "p2"), tmp_path)
    assert found.slides_without_patient == ("b",)
    assert found.patients_without_slide == ("p2",)
    assert found.failures == {"b": "Its patient is not in the table of outcomes."}
    with pytest.raises(CohortError, match="share no patient_id"):
        slide_cohorts(listed, outcomes("q1"), tmp_path)


def test_every_bad_slide_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    for name in ("good1", "good2", "good3", "good4"):
        own(tmp_path, name)
    own(tmp_path, "wide", width=17)
    own(tmp_path, "encoder", encoder="uni")
    own(tmp_path, "weights", encoder_sha256="cd")
    own(tmp_path, "reducer", reducer_sha256="ef")
    cut = own(tmp_path, "cut")
    cut.write_bytes(cut.read_bytes()[:-5])
    write_bag(
        tmp_path / "tiles.h5", replace(FACTS, slide_id="t", stage="tiles"), np.ones((3, 2))
    )
    tiles = invented_tiles()
    nan = tiles.features.copy()
    nan[2, 3] = np.nan
    overwritten(write_trident(tmp_path, "empty", tiles), features=nan[:0], coords=nan[:0, :2])
    write_stamp(tmp_path, "nan", Tiles(tiles.places, nan))
    (tmp_path / "unknown.h5").mkdir()
    names = ["good1", "wide", "encoder", "weights", "reducer", "cut", "tiles", "empty", "nan"]
    names += ["unknown", "missing", "good2", "good3", "good4"]
    rows = [f"{name} p{k // 2} north" for k, name in enumerate(names)]
    found = slide_cohorts(manifest(*rows), outcomes(*(f"p{k}" for k in range(7))), tmp_path)
    assert found.slide_ids["north"] == (("good1",), ("good2",), ("good3", "good4"))
    assert found.patients_without_slide == ("p1", "p2", "p3", "p4")
    told = {
        "wide": "17 features per tile, where most slides have 16",
        "encoder": "Its encoder is 'uni', where most slides have 'resnet50'",
        "weights": "other weights",
        "reducer": "another reducer",
        "cut": "no whole HDF5 file",
        "tiles": "Embed first",
        "empty": "There is no tile",
        "nan": "1 of 37 tiles",
        "unknown": "no layout that is known",
        "missing": "no features of slide 'missing'",
    }
    assert set(found.left_out) == set(told)
    for name, reason in told.items():
        assert reason in found.left_out[name], name


def test_features_of_two_encoders_in_equal_parts_are_refused(tmp_path: Path) -> None:
    own(tmp_path, "a")
    own(tmp_path, "b", encoder="uni", encoder_sha256="cd")
    with pytest.raises(CohortError, match="two kinds of encoders"):
        opened_bags(manifest("a p north", "b q north").slides, tmp_path)


def test_a_folder_without_any_features_is_told(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="No slide has features") as error:
        opened_bags(manifest("a p north").slides, tmp_path)
    assert "Slide 'a'" in str(error.value)


@pytest.mark.parametrize("layout", WRITERS)
def test_a_cohort_of_another_programs_files(layout: str, tmp_path: Path) -> None:
    tiles = [invented_tiles(11 + k, seed=k) for k in range(3)]
    for name, some in zip("abc", tiles, strict=True):
        WRITERS[layout](tmp_path, name, some)
    found = slide_cohorts(
        manifest("a p1 north", "b p1 north", "c p2 south"), outcomes("p1", "p2"), tmp_path
    )
    bags = found.cohorts["north"].bags
    assert bags is not None
    assert tiles_of(bags.slides[0]) == [11, 12]
    np.testing.assert_array_equal(bags.slides[0][1].read(), tiles[1].features)
