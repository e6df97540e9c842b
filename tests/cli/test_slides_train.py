"""`fedcox slides train`, `predict` and `heatmap` on a folder of simulated slides."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedcox.slides.bag_file import BagFacts, read_bag, write_bag
from fedcox.slides.manifest import SlideManifest
from fedcox.slides.simulated_slides import SimulatedSlides, simulate_slides
from tests.cli.conftest import Run

FEATURES, SIDE = 5, 64
REDUCER = "r" * 64


@dataclass(frozen=True)
class Folder:
    """Slides with reduced features that tell which tiles are planted."""

    home: Path
    simulated: SimulatedSlides
    reduced: Path

    @property
    def words(self) -> list[str | Path]:
        """A training that works."""
        return [
            "slides",
            "train",
            self.simulated.manifest,
            "--patients",
            self.simulated.patients,
            "--features",
            self.reduced,
            "--width",
            "300",
            "--epochs",
            "3",
            "--hidden",
            "4",
        ]


def corners(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    places = range(0, size - SIDE + 1, SIDE)
    return np.array([(x, y) for y in places for x in places], np.int32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    home = tmp_path_factory.mktemp("slides")
    simulated = simulate_slides(home / "simulated", 24, 3, seed=5, size_px=256)
    rng = np.random.default_rng(0)
    for row in SlideManifest.read(simulated.manifest).slides:
        places = corners(256)
        features = rng.normal(size=(len(places), FEATURES))
        features[:, 0] += 2 * simulated.planted[row.slide_id].share(places, SIDE)
        facts = BagFacts(
            row.slide_id,
            "reduced",
            mpp=1.0,
            tile_px=SIDE,
            tile_um=float(SIDE),
            tile_px_level0=float(SIDE),
            n_tissue_tiles=len(places),
            encoder="made up",
            encoder_sha256="e" * 64,
            reducer_sha256=REDUCER,
        )
        write_bag(home / "work" / "reduced" / f"{row.slide_id}.h5", facts, places, features)
    return Folder(home, simulated, home / "work" / "reduced")


@pytest.fixture
def model(made: Folder, fedcox: Run, tmp_path: Path) -> Path:
    out = tmp_path / "model"
    assert fedcox(*made.words, "--out", out).status == 0
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_a_whole_folder(made: Folder, fedcox: Run, tmp_path: Path) -> None:
    out = tmp_path / "model"
    ended = fedcox(*made.words, "--validation", "0.25", "--patience", "2", "--out", out)
    assert ended.status == 0
    assert "24 patients" in ended.out
    assert "C-index on the held-out patients" in ended.out
    assert names(out) == {"network.safetensors", "training.json", "ledger.jsonl"}
    told = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert told["simulated"] is True
    assert 0 <= told["validation_c_index"] <= 1
    assert told["patients"] == 24
    assert all(epoch["validation"] > 0 for epoch in told["epochs"])
    lines = (out / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    sent = sum(json.loads(line)["bytes_up"] for line in lines)
    assert sent == told["bytes_up"] > 0
    assert told["features"]["reducer_sha256"] == REDUCER
    again = fedcox(*made.words, "--out", out)
    assert again.status == 2
    assert "--overwrite" in again.err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_secure_sums_and_averaging_and_noise_train_too(
    made: Folder, fedcox: Run, tmp_path: Path
) -> None:
    masked = fedcox(*made.words, "--epochs", "1", "--secure-sums", "--out", tmp_path / "a")
    assert masked.status == 0, masked.err
    ledger = (tmp_path / "a" / "ledger.jsonl").read_text(encoding="utf-8")
    assert '"masks"' in ledger
    assert fedcox(*made.words, "--solver", "fedavg", "--out", tmp_path / "b").status == 0
    private = ("--epsilon", "3", "--delta", "1e-3", "--planned-patients", "25")
    noised = fedcox(
        *made.words, *private, "--horizon", "1200", "--steps", "3", "--out", tmp_path / "c"
    )
    assert noised.status == 0, noised.err
    told = json.loads((tmp_path / "c" / "training.json").read_text(encoding="utf-8"))
    assert told["guarantee"]["epsilon"] <= 3.0
    # Nothing that was counted or looked at without noise.
    assert told["patients"] is told["slides"] is told["validation_c_index"] is None
    assert "tile_score_centre" not in told["features"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--patience", "3"), "--validation"),
        (("--epsilon", "1"), "--delta"),
        (("--local-epochs", "2"), "fedavg"),
        (("--delta", "0.1"), "--epsilon"),
        (("--epsilon", "1", "--delta", "0.1", "--planned-patients", "9"), "horizon"),
        (("--width", "0"), "width"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    made: Folder, fedcox: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = fedcox(*made.words, *words, "--out", tmp_path / "model")
    assert ended.status == 2
    assert said in ended.err
    assert not [*tmp_path.iterdir()]


def test_a_slide_that_cannot_be_used_is_named_and_the_rest_goes_on(
    made: Folder, fedcox: Run, tmp_path: Path
) -> None:
    reduced = _copied(made, tmp_path / "reduced")
    broken = sorted(reduced.iterdir())[0]
    broken.write_bytes(broken.read_bytes()[:500])
    words = [reduced if word == made.reduced else word for word in made.words]
    ended = fedcox(*words, "--out", tmp_path / "model")
    assert ended.status == 1
    assert broken.stem in ended.err
    assert (tmp_path / "model" / "network.safetensors").exists()


def _copied(made: Folder, folder: Path) -> Path:
    folder.mkdir()
    for path in made.reduced.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_predictions_are_means_and_fall_with_time(
    made: Folder, model: Path, fedcox: Run, tmp_path: Path
) -> None:
    words = ("slides", "predict", model, made.simulated.manifest, "--features", made.reduced)
    found = {}
    for way in ("mean", "max", "concat"):
        out = tmp_path / f"{way}.csv"
        times = ("--at", "300", "--at", "600")
        ended = fedcox(*words, "--patient-score", way, *times, "--out", out)
        assert ended.status == 0, ended.err
        found[way] = rows(out)
    slides: dict[str, list[float]] = {}
    for row in found["mean"]:
        slides.setdefault(row["patient_id"], []).append(float(row["slide_score"]))
    assert max(map(len, slides.values())) == 2
    for way, of in (("mean", np.mean), ("max", np.max), ("concat", np.mean)):
        for row in found[way]:
            # All slides here have as many tiles, so that joining them is their mean.
            risk = float(of(slides[row["patient_id"]]))
            assert float(row["patient_risk"]) == pytest.approx(risk, abs=1e-6)
            assert 0 <= float(row["survival_600"]) <= float(row["survival_300"]) <= 1
    pairs = [(float(row["patient_risk"]), float(row["survival_600"])) for row in found["mean"]]
    ordered = sorted(pairs)
    assert [survival for _, survival in ordered] == sorted(
        (survival for _, survival in pairs), reverse=True
    )
    late = fedcox(*words, "--at", "1e9", "--out", tmp_path / "late.csv")
    assert late.status == 2
    assert not (tmp_path / "late.csv").exists()


def test_without_a_width_time_is_exact_and_survival_known_at_any_time(
    made: Folder, fedcox: Run, tmp_path: Path
) -> None:
    at = made.words.index("--width")
    words, out = made.words[:at] + made.words[at + 2 :], tmp_path / "model"
    assert fedcox(*words, "--out", out).status == 0
    told = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert told["link"] == "log"
    model = ("slides", "predict", out, made.simulated.manifest, "--features", made.reduced)
    times = np.array([0.0, 123.4, 567.8, told["intervals"][-1]])
    shown = [word for time in times for word in ("--at", str(time))]
    assert fedcox(*model, *shown, "--out", tmp_path / "scores.csv").status == 0
    bounds = np.append(0.0, told["intervals"])
    hazard = np.exp([-np.inf if a is None else a for a in told["baseline"]])
    lived = np.clip((times[:, None] - bounds[:-1]) / np.diff(bounds), 0.0, 1.0)
    for row in rows(tmp_path / "scores.csv"):
        expected = np.exp(-np.exp(float(row["patient_risk"])) * (lived @ hazard))
        names = [f"survival_{time:g}" for time in times]
        assert [float(row[name]) for name in names] == pytest.approx(expected, rel=1e-9)
    late = fedcox(*model, "--at", str(times[-1] + 1), "--out", tmp_path / "late.csv")
    assert late.status == 2
    assert "follows patients up to" in late.err


def test_grouped_time_needs_a_width_and_knows_its_interval_ends_alone(
    made: Folder, fedcox: Run, tmp_path: Path
) -> None:
    at = made.words.index("--width")
    without = fedcox(
        *made.words[:at], *made.words[at + 2 :], "--link", "logit", "--out", tmp_path / "a"
    )
    assert without.status == 2
    assert "width is not given" in without.err
    out = tmp_path / "model"
    assert fedcox(*made.words, "--link", "logit", "--out", out).status == 0
    words = ("slides", "predict", out, made.simulated.manifest, "--features", made.reduced)
    between = fedcox(*words, "--at", "450", "--out", tmp_path / "scores.csv")
    assert between.status == 2
    assert "ends of intervals alone" in between.err
    assert not (tmp_path / "scores.csv").exists()
    assert fedcox(*words, "--at", "600", "--out", tmp_path / "scores.csv").status == 0


def test_features_of_another_reducer_are_refused(
    made: Folder, model: Path, fedcox: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    paths = sorted(made.reduced.iterdir())
    for path in paths:
        bag = read_bag(path)
        facts = bag.facts
        if path != paths[1]:
            facts = replace(facts, reducer_sha256="x" * 64)
        write_bag(other / path.name, facts, bag.coords, bag.read())
    words = ("slides", "predict", model, made.simulated.manifest, "--features", other)
    ended = fedcox(*words, "--out", tmp_path / "scores.csv")
    assert ended.status == 1
    assert "reducer of the model is" in ended.err
    assert [row["slide_id"] for row in rows(tmp_path / "scores.csv")] == [paths[1].stem]
    (other / paths[1].name).unlink()
    none = fedcox(*words, "--out", tmp_path / "none.csv")
    assert none.status == 2
    assert not (tmp_path / "none.csv").exists()


def test_a_heatmap_run_has_pictures_tables_and_a_page(
    made: Folder, model: Path, fedcox: Run, tmp_path: Path
) -> None:
    scored = tmp_path / "scores.csv"
    predict = ("slides", "predict", model, made.simulated.manifest, "--features", made.reduced)
    assert fedcox(*predict, "--out", scored).status == 0
    slide = rows(scored)[0]
    out = tmp_path / "maps"
    words = ("slides", "heatmap", model, made.simulated.manifest, "--work", made.home / "work")
    chosen = ("--slide", slide["slide_id"], "--tiles", "2", "--out", out)
    ended = fedcox(*words, *chosen)
    assert ended.status == 0, ended.err
    name = slide["slide_id"]
    assert names(out) == {
        "heatmap.html",
        "top_tiles.csv",
        "failures.csv",
        f"heatmaps/{name}.png",
        f"tiles/{name}.png",
        f"qupath/{name}.geojson",
        f"scores/{name}.csv",
    }
    tiles = rows(out / "scores" / f"{name}.csv")
    mean = np.mean([float(tile["score"]) for tile in tiles])
    assert mean == pytest.approx(float(slide["slide_score"]), rel=1e-4)
    features = json.loads((out / "qupath" / f"{name}.geojson").read_text(encoding="utf-8"))
    assert len(features["features"]) == len(tiles) == 16
    page = (out / "heatmap.html").read_text(encoding="utf-8")
    assert "Simulated slides: nothing here is about a patient" in page
    before = (out / "heatmaps" / f"{name}.png").stat().st_mtime_ns
    assert "1 kept" in fedcox(*words, *chosen).out
    assert (out / "heatmaps" / f"{name}.png").stat().st_mtime_ns == before
    unknown = fedcox(*words, "--slide", "nobody", "--out", out)
    assert unknown.status == 2
    assert "nobody" in unknown.err


def test_every_tile_marks_those_that_entered_the_score(
    made: Folder, model: Path, fedcox: Run, tmp_path: Path
) -> None:
    few = tmp_path / "few"
    path = sorted(made.reduced.iterdir())[0]
    bag = read_bag(path)
    assert bag.coords is not None
    write_bag(few / path.name, bag.facts, bag.coords[3:9], bag.read()[3:9])
    words = ("slides", "heatmap", model, made.simulated.manifest, "--work", made.home / "work")
    some = ("--slide", path.stem, "--features", few, "--every-tile", made.reduced)
    assert fedcox(*words, *some, "--out", tmp_path / "maps").status == 0
    found = rows(tmp_path / "maps" / "scores" / f"{path.stem}.csv")
    assert [int(row["in_slide_score"]) for row in found] == [0] * 3 + [1] * 6 + [0] * 7
    swapped = ("--slide", path.stem, "--features", made.reduced, "--every-tile", few)
    refused = fedcox(*words, *swapped, "--out", tmp_path / "wrong")
    assert refused.status == 1
    assert "not among every tile" in (tmp_path / "wrong" / "failures.csv").read_text()


def test_a_missing_model_is_told(made: Folder, fedcox: Run, tmp_path: Path) -> None:
    words = ("slides", "predict", tmp_path, made.simulated.manifest)
    ended = fedcox(*words, "--features", made.reduced, "--out", tmp_path / "s.csv")
    assert ended.status == 2
    assert "there is no slide model here" in ended.err
