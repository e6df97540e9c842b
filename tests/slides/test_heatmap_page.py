"""The pages on slides: the experiment's, and that of a heatmap run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import SlideError
from fedcox.evaluation.result import Row
from fedcox.paper.slide_study import DISCRETE, MINI, HeldOutSlide, SlideStudy, TileRanking
from fedcox.paper.slides_page import draw_examples, slides_html, write_slides_page
from fedcox.slides.feature_files import KnownSlide
from fedcox.slides.heatmap import PAGE, HeatmapOptions, HeatmapStep, picture_file, summary_in
from fedcox.slides.heatmap_page import HeatmapRun, heatmap_html, write_run_page
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.simulated_slides import simulate_slides
from fedcox.slides.step import StepOutcome, run_step
from fedcox.slides.tile_scores import ColourKey, ScoredTiles, ScoreScale
from tests.reports.page_checks import check_loads_nothing, check_outline, check_page

SCALE = ScoreScale(0.0, 1.0)


def tiles(name: str, shift: float = 0.0) -> ScoredTiles:
    corners = np.array([(64.0 * x, 64.0 * y) for y in range(4) for x in range(4)])
    scores = np.linspace(-1.2, 1.2, 16) + shift
    return ScoredTiles(name, corners, 64.0, scores, np.ones(16, bool))


def row(seed: int, fold: int, scheme: str, c_index: float | None) -> Row:
    return Row(
        "slides", seed, "folds", fold, None, scheme, c_index, 28, 16, 112, 1.0, 9, 90, 90
    )


@pytest.fixture(scope="module")
def slide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    simulate_slides(folder, 1, 1, size_px=256)
    return folder / "slides" / "simulated-0001-a.tiff"


@pytest.fixture(scope="module")
def study(slide: Path) -> SlideStudy:
    rows = [
        row(seed, fold, scheme, 0.7 + 0.01 * fold + (0.005 if scheme == DISCRETE else 0.0))
        for seed in range(2)
        for fold in range(1, 6)
        for scheme in (MINI, DISCRETE)
    ]
    own = tiles("simulated-0001-a")
    example = HeldOutSlide(own, SCALE, "logit", 1, own.scores > 0.5, slide)
    settings = {
        "slides_words": "Slides are simulated, <really>.",
        "encoder_words": "The encoder is untrained.",
        "tile_um": 64.0,
        "tile_px": 32,
        "mpp": 2.0,
        "max_tiles": 8000,
        "reduced": 256,
        "width": 30.0,
        "unit": "days",
        "epochs": 25,
        "batch_words": "about 100 stacked rows each",
        "learning_rate": 1e-3,
        "mini_batch_size": 30,
        "mini_epochs": 20,
        "notes": ["3 slide(s) could not be used and are left out."],
    }
    return SlideStudy(
        True,
        None,
        140,
        84,
        163,
        15810,
        {"center-1": 80, "center-2": 60},
        settings,
        tuple(rows),
        (TileRanking(0, 1, "simulated-0001-a", 5, 16, 0.953),),
        {"embed": 61.25},
        {"fedcox": "0.1.0"},
        (example,),
    )


def test_the_page_of_the_experiment_says_what_is_simulated_and_what_is_the_papers(
    study: SlideStudy, tmp_path: Path
) -> None:
    draw_examples(study, tmp_path / "heatmap", command="fedcox reproduce slides")
    path = tmp_path / "slides.html"
    write_slides_page(path, study, command="fedcox <x>", heatmaps=tmp_path / "heatmap")
    page = path.read_text(encoding="utf-8")
    check_page(page)
    assert "Everything on this page is simulated" in page
    assert "cannot be reproduced without those slides and weights" in page
    assert "<td>0.730 ± 0.015</td><td>0.735 ± 0.015</td>" in page
    assert "<td>0.67 ± 0.05</td><td>0.68 ± 0.06</td><td>+0.01</td>" in page
    assert page.count("the paper's table 2") == 4
    assert "0.953 over 1 slide" in page
    assert page.count("data:image/jpeg;base64,") == 2
    assert "Slides are simulated, &lt;really&gt;." in page
    assert "fedcox &lt;x&gt;" in page
    assert "5 of 16" in page


def test_real_slides_of_a_cancer_stand_beside_its_row(study: SlideStudy) -> None:
    real = replace(study, simulated=False, cancer="KIRC", rankings=(), examples=())
    page = slides_html(real, command="fedcox")
    assert page.count("the paper's table 2") == 1
    assert "<td>0.66 ± 0.05</td><td>0.69 ± 0.04</td>" in page
    assert "simulated:" not in page.lower().replace("slides are simulated", "")
    assert "AUC" not in page
    check_outline(page)


def test_a_test_set_without_an_index_is_a_dash(study: SlideStudy) -> None:
    rows = tuple(
        replace(row, c_index=None) if (row.seed, row.fold) == (1, 2) else row
        for row in study.rows
    )
    page = slides_html(replace(study, rows=rows, examples=()), command="fedcox")
    assert "<td>–</td><td>–</td>" in page
    assert "nan" not in page.lower().split("</style>")[1]


def drawn(folder: Path, names: list[str], path: Path | None) -> tuple[HeatmapStep, StepOutcome]:
    def score(name: str, known: KnownSlide) -> ScoredTiles:
        if name == "bad":
            raise SlideError("Nobody knows where on the slide the tiles lie.")
        return tiles(name, shift=0.01 * len(name))

    step = HeatmapStep(
        score,
        lambda name: name,
        ColourKey(SCALE, "cloglog"),
        "m" * 64,
        HeatmapOptions(tiles=3),
    )
    rows = [ManifestRow(name, "p", "c", path) for name in names]
    return step, run_step(step, rows, folder)


def run(folder: Path, names: list[str], failed: dict[str, str]) -> HeatmapRun:
    return HeatmapRun(
        folder,
        names,
        [*failed.items()],
        ColourKey(SCALE, "cloglog"),
        "m" * 64,
        "fedcox slides heatmap",
    )


def test_the_page_of_a_run_shows_slides_by_score_and_names_failures(
    tmp_path: Path, slide: Path
) -> None:
    _, outcome = drawn(tmp_path, ["short", "much-longer", "bad"], slide)
    assert outcome.failed == {"bad": "Nobody knows where on the slide the tiles lie."}
    page = heatmap_html(run(tmp_path, ["short", "much-longer"], dict(outcome.failed)))
    check_outline(page)
    check_loads_nothing(page)
    assert page.index("much-longer") < page.index("short")
    assert "Slides that failed" in page
    assert "about doubles the hazard" in page
    assert page.count("data:image/jpeg;base64,") == 4
    assert 'href="qupath/short.geojson"' in page
    summary = summary_in(tmp_path / "heatmaps" / "short.png")
    assert summary.slide_score == pytest.approx(0.05)
    assert summary.tiles == summary.entered == 16


def test_slides_without_a_file_are_drawn_without_a_picture(tmp_path: Path) -> None:
    _, outcome = drawn(tmp_path, ["only-features"], None)
    assert outcome.made == ("only-features",)
    page = heatmap_html(run(tmp_path, ["only-features"], {}))
    assert page.count("data:image/jpeg;base64,") == 1
    assert not (tmp_path / "tiles").exists()


def test_a_finished_picture_is_kept_and_a_damaged_one_made_anew(tmp_path: Path) -> None:
    drawn(tmp_path, ["one"], None)
    picture = tmp_path / "heatmaps" / "one.png"
    whole = picture.read_bytes()
    assert drawn(tmp_path, ["one"], None)[1].kept == ("one",)
    picture.write_bytes(whole[: len(whole) // 2])
    assert drawn(tmp_path, ["one"], None)[1].redone == ("one",)
    assert picture.read_bytes() == whole
    told = json.loads((tmp_path / "qupath" / "one.geojson").read_text(encoding="utf-8"))
    assert len(told["features"]) == 16


def test_a_large_run_shows_the_first_and_links_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcox.slides.heatmap_page.SHOWN", 1)
    drawn(tmp_path, ["one", "second"], None)
    page = heatmap_html(run(tmp_path, ["one", "second"], {}))
    assert page.count("data:image/jpeg;base64,") == 1
    assert 'href="heatmaps/one.png"' in page
    assert 'href="#map-1">second' in page


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
