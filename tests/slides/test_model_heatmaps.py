"""The page of a heatmap run shows what this run stands for, and no earlier one."""

from __future__ import annotations

from pathlib import Path

from fedcox.slides.heatmap_files import PAGE, picture_file
from fedcox.slides.heatmap_page import write_run_page
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.simulated_slides import simulate_slides
from tests.slides.test_slide_pages import drawn

ROWS = [ManifestRow(name, "p", "c") for name in ("now", "before")]


def test_a_slide_that_failed_now_is_not_shown_by_its_earlier_picture(tmp_path: Path) -> None:
    step, _ = drawn(tmp_path, ["now", "before"], None)
    failed = {"before": "The features are not those that the model was trained on."}
    page = write_run_page(step, ROWS, tmp_path, failed, command="fedcox slides heatmap")
    assert page == tmp_path / PAGE
    text = page.read_text(encoding="utf-8")
    assert 'href="qupath/now.geojson"' in text
    assert 'href="qupath/before.geojson"' not in text
    assert failed["before"] in text
    assert "before" not in (tmp_path / "top_tiles.csv").read_text(encoding="utf-8")


def test_a_lost_file_of_a_slide_is_made_again(tmp_path: Path) -> None:
    simulated = simulate_slides(tmp_path / "simulated", 1, 1, size_px=256)
    slide = SlideManifest.read(simulated.manifest).slides[0].path
    maps = tmp_path / "maps"
    drawn(maps, ["now"], slide)
    assert drawn(maps, ["now"], slide)[1].kept == ("now",)
    for lost in ("scores/now.csv", "qupath/now.geojson", "tiles/now.png"):
        content = (maps / lost).read_bytes()
        (maps / lost).unlink()
        step, outcome = drawn(maps, ["now"], slide)
        assert outcome.redone == ("now",)
        assert (maps / lost).read_bytes() == content
    assert write_run_page(step, ROWS[:1], maps, {}, command="fedcox") == maps / PAGE


def test_without_a_picture_there_is_no_page(tmp_path: Path) -> None:
    step, _ = drawn(tmp_path, ["now"], None)
    picture_file(tmp_path, "now").unlink()
    assert write_run_page(step, ROWS, tmp_path, {}, command="fedcox") is None
    assert not (tmp_path / PAGE).exists()
