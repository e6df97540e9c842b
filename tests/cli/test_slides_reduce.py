"""`fedcox slides reduce`: kept when nothing changed, made anew when something did."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.slides.bag_file import BagFacts, read_bag, write_bag
from fedcox.slides.reduction import read_reducer
from tests.cli.conftest import Run
from tests.slides.foreign_files import (
    SIZE,
    invented_tiles,
    write_clam,
    write_owkin,
    write_stamp,
)
from tests.slides.shifted_tiles import shifted_tiles, subspace_gap

pytest.importorskip("h5py")
pytest.importorskip("safetensors")

PATIENTS = 12
FACTS = BagFacts(
    "", "raw", 0.25, 224, 112.0, 448.0, 0, 900, encoder="resnet50", encoder_sha256="ab"
)


def tiles_of(number: int) -> np.ndarray:
    return shifted_tiles(20 + number, 24, number, shift=number % 3)


@pytest.fixture
def slides(tmp_path: Path) -> Path:
    """Twelve patients, the first with two slides, of three centers, embedded."""
    rows = ["slide_id,patient_id,center,path"]
    for number in range(PATIENTS + 1):
        patient = max(number - 1, 0)
        rows.append(f"s{number},p{patient},center{patient % 3},")
        features = tiles_of(number)
        coords = np.arange(2 * len(features)).reshape(-1, 2)
        path = tmp_path / "work" / "features" / f"s{number}.h5"
        write_bag(path, replace(FACTS, slide_id=f"s{number}"), coords, features)
    path = tmp_path / "slides.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def words(slides: Path, *more: str | Path) -> list[str | Path]:
    work = slides.parent / "work"
    return ["slides", "reduce", slides, "--work", work, "--size", "6", *more]


def failures(work: Path) -> dict[str, str]:
    with (work / "failures.csv").open(encoding="utf-8") as file:
        return {row["slide_id"]: row["reason"] for row in csv.DictReader(file)}


def stamps(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()
    }


def test_every_slide_is_reduced_by_the_best_map_of_all_tiles(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    ended = fedcox(*words(slides))
    assert ended.status == 0, ended.err
    assert "24 features to 6 (fitted: pca, 12 patients" in ended.out
    assert "13 made" in ended.out
    tiles = np.concatenate([tiles_of(k) for k in range(PATIENTS + 1)]).astype(np.float64)
    reducer = read_reducer(work / "reducer.safetensors")
    right = np.linalg.svd(tiles)[2][:6].T
    assert subspace_gap(reducer.components, right) < 1e-6
    bag = read_bag(work / "reduced" / "s3.h5")
    expected = replace(FACTS, slide_id="s3", stage="reduced", reducer_sha256=reducer.sha256)
    assert replace(bag.facts, settings={}) == expected
    np.testing.assert_array_equal(bag.coords, read_bag(work / "features" / "s3.h5").coords)
    np.testing.assert_allclose(
        bag.read(), tiles_of(3) @ reducer.components, rtol=2e-3, atol=0.01
    )


def test_a_second_run_keeps_everything(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    fedcox(*words(slides))
    before, reducer = (
        stamps(work / "reduced"),
        (work / "reducer.safetensors").stat().st_mtime_ns,
    )
    ended = fedcox(*words(slides))
    assert ended.status == 0
    assert "kept from before" in ended.out
    assert stamps(work / "reduced") == before
    assert (work / "reducer.safetensors").stat().st_mtime_ns == reducer


def test_what_was_interrupted_is_finished_with_the_same_bytes(
    slides: Path, fedcox: Run
) -> None:
    work = slides.parent / "work"
    fedcox(*words(slides))
    before = {name: content for name, (_, content) in stamps(work / "reduced").items()}
    (work / "reduced" / "s1.h5").unlink()
    half = work / "reduced" / "s2.h5"
    half.write_bytes(half.read_bytes()[:500])
    ended = fedcox(*words(slides))
    assert ended.status == 0
    assert "2 made" in ended.out
    after = {name: content for name, (_, content) in stamps(work / "reduced").items()}
    assert after == before


def test_a_reduced_file_of_another_reducer_is_made_anew(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    fedcox(*words(slides))
    first = read_reducer(work / "reducer.safetensors").sha256
    ended = fedcox(*words(slides, "--whiten"))
    assert ended.status == 0
    second = read_reducer(work / "reducer.safetensors").sha256
    assert second != first
    shas = {read_bag(path).facts.reducer_sha256 for path in (work / "reduced").glob("*.h5")}
    assert shas == {second}


def test_only_the_listed_patients_shape_the_reducer(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    chosen = [f"p{k}" for k in range(10)]
    listing = slides.parent / "training.csv"
    listing.write_text("patient_id\n" + "\n".join(chosen), encoding="utf-8")
    ended = fedcox(*words(slides, "--patients", listing))
    assert ended.status == 0, ended.err
    assert "10 patients" in ended.out
    tiles = np.concatenate([tiles_of(k) for k in range(11)]).astype(np.float64)
    right = np.linalg.svd(tiles)[2][:6].T
    reducer = read_reducer(work / "reducer.safetensors")
    assert subspace_gap(reducer.components, right) < 1e-6
    assert len(list((work / "reduced").glob("*.h5"))) == PATIENTS + 1
    # Other features of a patient who is not listed change that slide alone.
    path = work / "features" / "s12.h5"
    bag = read_bag(path)
    write_bag(path, bag.facts, bag.coords, bag.read()[::-1])
    ended = fedcox(*words(slides, "--patients", listing))
    assert "kept from before: pca" in ended.out
    assert "1 made (1 anew" in ended.out


def test_new_patients_are_reduced_by_the_reducer_of_a_model(slides: Path, fedcox: Run) -> None:
    work, new = slides.parent / "work", slides.parent / "new"
    fedcox(*words(slides))
    fitted = work / "reducer.safetensors"
    manifest = slides.parent / "new.csv"
    manifest.write_text("slide_id,patient_id,center,path\nn,q,west,\n", encoding="utf-8")
    features = tiles_of(99)
    path = new / "features" / "n.h5"
    coords = np.arange(2 * len(features)).reshape(-1, 2)
    write_bag(path, replace(FACTS, slide_id="n"), coords, features)
    reduce = ["slides", "reduce", manifest, "--work", new, "--reducer", fitted]
    ended = fedcox(*reduce)
    assert ended.status == 0, ended.err
    bag, reducer = read_bag(new / "reduced" / "n.h5"), read_reducer(fitted)
    assert bag.facts.reducer_sha256 == reducer.sha256
    np.testing.assert_array_equal(bag.read(), reducer.apply(features).astype(np.float16))
    other = replace(FACTS, slide_id="n", encoder="uni", encoder_sha256="cd")
    write_bag(path, other, coords, features)
    ended = fedcox(*reduce)
    assert ended.status == 2
    assert "encoder resnet50, and these are of uni" in ended.err
    write_bag(path, replace(FACTS, slide_id="n"), coords, features[:, :9])
    assert "24 features per tile, and these slides have 9" in fedcox(*reduce).err
    assert "fitted already" in fedcox(*reduce, "--whiten").err
    assert "no reducer in" in fedcox(*reduce[:-1], path).err


def test_the_papers_autoencoder_by_seed(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    ended = fedcox(*words(slides, "--method", "adam"))
    assert ended.status == 0, ended.err
    assert "fitted: adam" in ended.out
    first = read_reducer(work / "reducer.safetensors")
    (work / "reducer.safetensors").unlink()
    fedcox(*words(slides, "--method", "adam"))
    assert read_reducer(work / "reducer.safetensors").sha256 == first.sha256
    fedcox(*words(slides, "--method", "adam", "--seed", "1"))
    assert read_reducer(work / "reducer.safetensors").sha256 != first.sha256


def test_bad_slides_are_named_and_the_rest_goes_on(slides: Path, fedcox: Run) -> None:
    work = slides.parent / "work"
    (work / "features" / "s1.h5").unlink()
    cut = work / "features" / "s2.h5"
    cut.write_bytes(cut.read_bytes()[:-9])
    bag = read_bag(work / "features" / "s4.h5")
    other = replace(bag.facts, encoder_sha256="cd")
    write_bag(work / "features" / "s4.h5", other, bag.coords, bag.read())
    ended = fedcox(*words(slides))
    assert ended.status == 1
    told = failures(work)
    assert set(told) == {"s1", "s2", "s4"}
    assert "no features of slide 's1'" in told["s1"]
    assert "HDF5" in told["s2"]
    assert "other weights" in told["s4"]
    assert len(list((work / "reduced").glob("*.h5"))) == PATIENTS - 2


def test_a_slide_that_overflows_has_no_say_in_the_reducer(tmp_path: Path, fedcox: Run) -> None:
    """Its squares would outweigh those of all other slides together."""
    folder, work = tmp_path / "clam", tmp_path / "work"
    rows = ["slide_id,patient_id,center,path"]
    for number in range(12):
        tiles = invented_tiles(9, seed=number)
        scale = 1e6 if number == 5 else 1.0
        write_clam(folder, f"s{number}", replace(tiles, features=tiles.features * scale))
        rows.append(f"s{number},p{number},c,")
    slides = tmp_path / "slides.csv"
    slides.write_text("\n".join(rows), encoding="utf-8")
    assert fedcox(*words(slides, "--features", folder)).status == 1
    assert "more than a half float holds" in failures(work)["s5"]
    shaped = read_reducer(work / "reducer.safetensors")
    assert shaped.facts.patients == 11
    slides.write_text("\n".join(rows[:6] + rows[7:]), encoding="utf-8")
    assert fedcox(*words(slides, "--features", folder)).status == 0
    without = read_reducer(work / "reducer.safetensors")
    np.testing.assert_array_equal(shaped.components, without.components)


def test_files_of_another_program_are_reduced(tmp_path: Path, fedcox: Run) -> None:
    folder, work = tmp_path / "stamp", tmp_path / "work"
    folder.mkdir()
    rows = ["slide_id,patient_id,center,path"]
    for number in range(10):
        write_stamp(folder, f"s{number}", invented_tiles(9, seed=number))
        rows.append(f"s{number},p{number},c,")
    slides = tmp_path / "slides.csv"
    slides.write_text("\n".join(rows), encoding="utf-8")
    ended = fedcox(*words(slides, "--features", folder))
    assert ended.status == 0, ended.err
    bag = read_bag(work / "reduced" / "s0.h5")
    assert bag.shape == (9, 6)
    assert bag.facts.encoder == "uni_v1"
    assert bag.coords is None  # micrometres, and no slide to tell its resolution


def test_places_that_need_the_slide_are_kept_where_it_is_there(
    tmp_path: Path, fedcox: Run
) -> None:
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("openslide")
    folder, work = tmp_path / "owkin", tmp_path / "work"
    folder.mkdir()
    scan = tmp_path / "scan.tif"
    width, height = (side // 10 for side in SIZE)
    tifffile.imwrite(
        scan,
        np.full((height, width, 3), 200, dtype=np.uint8),
        tile=(256, 256),
        photometric="rgb",
        resolution=(20_000, 20_000),
        resolutionunit="CENTIMETER",
    )
    rows = ["slide_id,patient_id,center,path"]
    for number in range(10):
        tiles = invented_tiles(9, seed=number)
        small = replace(tiles, places=tiles.places % 3)
        file = write_owkin(folder, f"s{number}", small)
        array = np.load(file)
        array[:, 0] = 10  # 2,000 pixels are level 11
        np.save(file, array)
        rows.append(f"s{number},p{number},c,{scan.name}")
    slides = tmp_path / "slides.csv"
    slides.write_text("\n".join(rows), encoding="utf-8")
    ended = fedcox(*words(slides, "--features", folder, "--deepzoom-tile-px", "224"))
    assert ended.status == 0, ended.err
    bag = read_bag(work / "reduced" / "s0.h5")
    np.testing.assert_array_equal(bag.coords, invented_tiles(9, seed=0).places % 3 * 448)
    assert bag.facts.mpp == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--size", "25"], "from 1 to 24"),
        (["--patients", "few.csv"], "at least 10 are needed"),
        (["--patients", "strangers.csv"], "2 of 2 patients have no slide"),
        (["--patients", "nowhere.csv"], "Cannot read"),
        (["--features", "nowhere"], "No slide has features"),
        (["--method", "magic"], "magic"),
    ],
)
def test_wrong_input_is_told_and_writes_nothing(
    change: list[str],
    told: str,
    slides: Path,
    fedcox: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(slides.parent)
    Path("few.csv").write_text("patient_id\np1\np2\n", encoding="utf-8")
    Path("strangers.csv").write_text("patient_id\nx\ny\n", encoding="utf-8")
    ended = fedcox(*words(slides, *change))
    assert ended.status == 2
    assert told in ended.err
    assert {path.name for path in (slides.parent / "work").iterdir()} == {"features"}
