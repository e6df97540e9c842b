"""What was made of a slide is not used once the slide was replaced or cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.slides.bag_file import read_bag, write_bag
from fedcox.slides.cohorts import opened_bags
from fedcox.slides.embedding import embed_slides
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.reduction import Reducer, ReducerFacts, ReduceStep
from fedcox.slides.simulated_slides import simulate_slides
from fedcox.slides.step import (
    StepOutcome,
    features_path,
    made_after,
    read_failures,
    reduced_path,
    run_step,
    tiles_path,
)
from fedcox.slides.tiling import Segmentation, Tiling
from fedcox.slides.tissue import OtsuTissue
from tests.slides.drawn import cut_in_half
from tests.slides.embedding_examples import MeanColour

TILING = Tiling(tile_um=64.0, mpp=1.0, max_tiles=4)
FACTS = ReducerFacts("pca", 12, 10, 0.0, False, "mean colour", "1.0")
FOLDERS = ("masks", "tiles", "features", "reduced")


@pytest.fixture
def slides(tmp_path: Path) -> Sequence[ManifestRow]:
    simulated = simulate_slides(tmp_path / "simulated", 3, 1, 0, size_px=512)
    return SlideManifest.read(simulated.manifest).slides


@pytest.fixture
def work(slides: Sequence[ManifestRow], tmp_path: Path) -> Path:
    """Every step done for every slide."""
    folder = tmp_path / "work"
    run_step(Segmentation(), slides, folder)
    run_step(TILING, slides, folder)
    embedded(slides, folder)
    reduced(slides, folder)
    for slide in slides:
        assert there(slide, folder) == set(FOLDERS)
    return folder


def embedded(slides: Sequence[ManifestRow], work: Path) -> StepOutcome:
    return embed_slides(slides, work, MeanColour(), batch=4)


def reduced(slides: Sequence[ManifestRow], work: Path) -> StepOutcome:
    opened = opened_bags(slides, work / "features")
    reducer = Reducer(np.eye(3)[:, :2], np.ones(2), FACTS)
    step = ReduceStep(reducer, opened.bags, opened.faults, work / "features")
    return run_step(step, slides, work)


def there(slide: ManifestRow, work: Path) -> set[str]:
    """The folders of `work` that hold something of the slide."""
    return {name for name in FOLDERS if [*(work / name).glob(f"{slide.slide_id}.*")]}


def file_of(slide: ManifestRow) -> Path:
    assert slide.path is not None
    return slide.path


@pytest.mark.parametrize("assume_mpp", [None, 1.0])
def test_a_slide_replaced_by_an_unusable_file_loses_all_that_was_made_of_it(
    slides: Sequence[ManifestRow], work: Path, assume_mpp: float | None
) -> None:
    bad, *others = slides
    file_of(bad).write_text("no slide")
    outcome = run_step(Segmentation(assume_mpp=assume_mpp), slides, work)
    assert set(outcome.failed) == {bad.slide_id}
    assert there(bad, work) == set()
    [(_, step, reason)] = read_failures(work)
    assert step == "segment"
    for name in ("tiles", "features", "reduced"):
        assert f"{name}/{bad.slide_id}.h5" in reason
    assert all(there(slide, work) == set(FOLDERS) for slide in others)
    # The later steps, and a training, go on with the others alone.
    assert set(run_step(TILING, slides, work).failed) == {bad.slide_id}
    again = embedded(slides, work)
    assert (set(again.failed), len(again.kept)) == ({bad.slide_id}, len(others))
    assert list(opened_bags(slides, work / "reduced").bags) == [s.slide_id for s in others]


def test_embedding_alone_does_not_keep_features_of_another_file(
    slides: Sequence[ManifestRow], work: Path
) -> None:
    bad, *others = slides
    cut_in_half(file_of(bad))
    outcome = embedded(slides, work)
    assert set(outcome.failed) == {bad.slide_id}
    assert "fedcox slides segment" in outcome.failed[bad.slide_id]
    assert not {"features", "reduced"} & there(bad, work)
    assert set(outcome.kept) == {slide.slide_id for slide in others}
    assert set(reduced(slides, work).failed) == {bad.slide_id}
    assert list(opened_bags(slides, work / "reduced").bags) == [s.slide_id for s in others]


def test_a_slide_replaced_by_a_usable_one_is_embedded_once_its_tissue_is_found(
    slides: Sequence[ManifestRow], work: Path, tmp_path: Path
) -> None:
    changed = slides[0]
    before = read_bag(features_path(changed.slide_id, work)).read()
    other = simulate_slides(tmp_path / "other", 1, 1, 9, size_px=512)
    file_of(changed).write_bytes(
        file_of(SlideManifest.read(other.manifest).slides[0]).read_bytes()
    )
    assert set(embedded(slides, work).failed) == {changed.slide_id}
    run_step(Segmentation(), slides, work)
    run_step(TILING, slides, work)
    assert embedded(slides, work).made == (changed.slide_id,)
    assert not np.array_equal(read_bag(features_path(changed.slide_id, work)).read(), before)
    assert read_failures(work) == []


def test_settings_under_which_a_slide_has_no_tissue_remove_its_features(
    slides: Sequence[ManifestRow], work: Path
) -> None:
    outcome = run_step(Segmentation(OtsuTissue(), speck_um2=1e12), slides, work)
    assert len(outcome.failed) == len(slides)
    assert all(there(slide, work) == set() for slide in slides)
    for later in (run_step(TILING, slides, work), embedded(slides, work)):
        assert (later.kept, len(later.failed)) == ((), len(slides))


def test_a_slide_whose_file_is_away_keeps_what_it_has(
    slides: Sequence[ManifestRow], work: Path
) -> None:
    for slide in slides:
        file_of(slide).unlink()  # such as a disk that is not connected
    assert len(run_step(Segmentation(), slides, work).failed) == len(slides)
    assert len(run_step(TILING, slides, work).kept) == len(slides)
    assert len(embedded(slides, work).kept) == len(slides)
    assert all(there(slide, work) == set(FOLDERS) for slide in slides)


def test_features_that_lack_their_tiles_or_are_put_away_lose_nothing(
    slides: Sequence[ManifestRow], work: Path
) -> None:
    one, two, _ = slides
    tiles_path(one.slide_id, work).unlink()
    assert set(embedded(slides, work).failed) == {one.slide_id}
    assert there(one, work) == {"masks", "features", "reduced"}
    features_path(two.slide_id, work).unlink()
    assert set(reduced(slides, work).failed) == {two.slide_id}
    assert there(two, work) == {"masks", "tiles", "reduced"}


def test_features_that_do_not_go_with_the_others_lose_what_was_reduced(
    slides: Sequence[ManifestRow], work: Path
) -> None:
    odd = slides[0]
    bag = read_bag(features_path(odd.slide_id, work))
    facts = replace(bag.facts, encoder="another")
    write_bag(bag.path, facts, bag.coords, bag.read())
    outcome = reduced(slides, work)
    assert "another" in outcome.failed[odd.slide_id]
    assert there(odd, work) == {"masks", "tiles", "features"}


def test_what_was_reduced_of_another_programs_features_stays(tmp_path: Path) -> None:
    for path in (tiles_path("s", tmp_path), reduced_path("s", tmp_path)):
        path.parent.mkdir()
        path.touch()
    assert [*made_after("segment", "s", tmp_path)] == [tiles_path("s", tmp_path)]
    features_path("s", tmp_path).parent.mkdir()
    features_path("s", tmp_path).touch()
    assert [path.parent.name for path in made_after("segment", "s", tmp_path)] == [
        "reduced",
        "features",
        "tiles",
    ]
    assert [path.parent.name for path in made_after("embed", "s", tmp_path)] == ["reduced"]
    assert [*made_after("heatmap", "s", tmp_path)] == []
