"""Which features a slide model stands for: of which slides, which reducer, on which scale."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy.special import expit

from fedcox.cli.slides.features import embed
from fedcox.errors import InputError
from fedcox.slides.bag_file import read_bag, write_bag
from fedcox.slides.bag_reader import open_bag
from fedcox.slides.feature_files import OpenedBag
from fedcox.slides.model import SlideModel
from tests.cli.conftest import Run
from tests.feature_folder import FeatureFolder, feature_folder
from tests.slides.embedding_examples import TinyNetwork, tiled_slide, write_onnx
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> FeatureFolder:
    return feature_folder(tmp_path_factory.mktemp("reduced"))


@pytest.fixture(scope="module")
def unreduced(tmp_path_factory: pytest.TempPathFactory) -> FeatureFolder:
    return feature_folder(tmp_path_factory.mktemp("unreduced"), reducer="")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("more", [(), ("--secure-sums",)])
def test_a_checkpoint_of_other_features_is_refused(
    folder: FeatureFolder, fedcox: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    kept: tuple[str | Path, ...] = ("--checkpoint", tmp_path / "kept.safetensors", *more)
    assert fedcox(*folder.train(*kept, "--out", tmp_path / "first")).status == 0
    other = folder.changed(f"other{len(more)}", factor=2.0)
    ended = fedcox(*folder.train(*kept, "--out", tmp_path / "other", features=other))
    assert ended.status == 2
    assert "checkpoint of another training" in ended.err
    assert not (tmp_path / "other").exists()
    # The same features in another place are those of the checkpoint.
    moved = folder.changed(f"moved{len(more)}")
    again = fedcox(*folder.train(*kept, "--out", tmp_path / "again", features=moved))
    assert again.status == 0, again.err
    theta = [SlideModel.read(tmp_path / name).network.theta for name in ("first", "again")]
    assert theta[0].tolist() == theta[1].tolist()


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_scores_risks_and_baseline_are_on_the_scale_of_the_curves(
    folder: FeatureFolder, fedcox: Run, tmp_path: Path, link: str
) -> None:
    folders = tmp_path / "model", tmp_path / "scores.csv"
    long = ("--epochs", "6", "--learning-rate", "0.01", "--link", link)
    assert fedcox(*folder.train(*long, "--out", folders[0])).status == 0
    ended = fedcox(*folder.predict(folders[0], "--at", "900", "--out", folders[1]))
    assert ended.status == 0, ended.err
    model, scored = SlideModel.read(folders[0]), rows(folders[1])
    assert abs(model.network.slope - 1) > 0.5  # or nothing of this could fail
    told = json.loads((folders[0] / "training.json").read_text(encoding="utf-8"))
    reached = np.array(told["intervals"]) <= 900
    baseline = np.array([-np.inf if a is None else a for a in told["baseline"]])[reached]
    tiles = {row["slide_id"]: model.tile_scores(_bag(folder, row)) for row in scored}
    for row in scored:
        z = baseline + float(row["patient_risk"])
        survived = 1 - expit(z) if link == "logit" else np.exp(-np.exp(z))
        assert float(row["survival_900"]) == pytest.approx(float(survived.prod()), rel=1e-9)
        mean = tiles[row["slide_id"]].mean()
        assert mean == pytest.approx(float(row["slide_score"]), rel=1e-4, abs=1e-6)
    assert np.ptp([float(row["patient_risk"]) for row in scored]) > 0.01
    low, centre, high = np.quantile(np.concatenate([*tiles.values()]), [0.01, 0.5, 0.99])
    assert told["features"]["tile_score_centre"] == pytest.approx(centre, rel=1e-9)
    reach = max(high - centre, centre - low)
    assert told["features"]["tile_score_reach"] == pytest.approx(reach, rel=1e-9)


def _bag(folder: FeatureFolder, row: dict[str, str]) -> OpenedBag:
    return open_bag(folder.features / f"{row['slide_id']}.h5")


def test_a_network_trained_in_half_precision_scores_in_single(
    folder: FeatureFolder, fedcox: Run, tmp_path: Path
) -> None:
    words = ("--precision", "bfloat16", "--out", tmp_path / "model")
    assert fedcox(*folder.train(*words)).status == 0
    out = tmp_path / "scores.csv"
    ended = fedcox(*folder.predict(tmp_path / "model", "--out", out))
    assert ended.status == 0, ended.err
    model = SlideModel.read(tmp_path / "model")
    for row in rows(out):
        tiles = model.tile_scores(_bag(folder, row))
        gap = abs(tiles.mean() - float(row["slide_score"]))
        assert gap <= 1e-5 * np.abs(tiles).max()  # half precision is off by about 1e-3


def test_epsilon_does_not_cover_a_reducer_and_this_is_told(
    folder: FeatureFolder, unreduced: FeatureFolder, fedcox: Run, tmp_path: Path
) -> None:
    private = ("--epsilon", "3", "--delta", "1e-3", "--planned-patients", "25")
    noise = (*private, "--horizon", "1200", "--steps", "1", "--hidden", "1")
    for given, expected in ((folder, 1), (unreduced, 0)):
        out = tmp_path / f"model{expected}"
        ended = fedcox(*given.train(*noise, "--out", out))
        assert ended.status == 0, ended.err
        told = json.loads((out / "training.json").read_text(encoding="utf-8"))
        notices = [notice for notice in told["notices"] if "reducer" in notice["text"]]
        assert len(notices) == expected
        assert ("not covered by epsilon" in ended.out) == bool(expected)
    # Without noise there is nothing that it could fail to cover.
    assert fedcox(*folder.train("--out", tmp_path / "plain")).status == 0
    plain = json.loads((tmp_path / "plain" / "training.json").read_text(encoding="utf-8"))
    assert plain["notices"] == []


def test_a_model_of_unreduced_features_refuses_reduced_ones(
    unreduced: FeatureFolder, fedcox: Run, tmp_path: Path
) -> None:
    model, out = tmp_path / "model", tmp_path / "scores.csv"
    assert fedcox(*unreduced.train("--out", model)).status == 0
    reduced = unreduced.changed("of-a-reducer", reducer="x" * 64)
    ended = fedcox(*unreduced.predict(model, "--out", out, features=reduced))
    assert ended.status == 2
    assert "reducer of the model is ''" in ended.err
    assert not out.exists()
    assert fedcox(*unreduced.predict(model, "--out", out)).status == 0


def test_maps_of_every_tile_are_drawn_anew_for_other_features(
    folder: FeatureFolder, fedcox: Run, tmp_path: Path
) -> None:
    assert fedcox(*folder.train("--out", tmp_path / "model")).status == 0
    whole = read_bag(folder.features / "s0a.h5")
    assert whole.coords is not None
    for name, part in (("A", slice(0, 3)), ("B", slice(5, 9))):
        file = tmp_path / name / "s0a.h5"
        write_bag(file, whole.facts, whole.coords[part], whole.read()[part])
    entered = {}
    for name in ("A", "B", "B"):
        words = ("slides", "heatmap", tmp_path / "model", folder.manifest, "--slide", "s0a")
        more = ("--features", tmp_path / name, "--every-tile", folder.features)
        ended = fedcox(*words, *more, "--work", tmp_path, "--out", tmp_path / "maps")
        assert ended.status == 0, ended.err
        found = rows(tmp_path / "maps" / "scores" / "s0a.csv")
        entered[name] = [
            place for place, row in enumerate(found) if row["in_slide_score"] == "1"
        ]
    assert entered == {"A": [0, 1, 2], "B": [5, 6, 7, 8]}
    assert "1 kept" in ended.out


def embedded_folder(work: Path, *names: str) -> Path:
    """Slides with their tiles, and the manifest that names them."""
    rows = ["slide_id,patient_id,center,path"]
    for number, name in enumerate(names):
        slide = tiled_slide(work, name, 4, seed=number)
        rows.append(f"{name},{slide.patient_id},A,{name}.tiff")
    (work / "slides.csv").write_text("\n".join(rows) + "\n")
    return work / "slides.csv"


def test_features_are_written_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = embedded_folder(tmp_path, "a", "b")
    embed(manifest, tmp_path, untrained=7, batch=4, readers=0)
    said = capsys.readouterr().out
    assert "resnet50 (untrained, seed 7)" in said
    assert "simulated slides only" in said
    assert "2 made" in said
    bag = read_bag(tmp_path / "features" / "a.h5")
    assert bag.shape == (4, 2048)
    assert bag.facts.encoder == "resnet50 (untrained, seed 7)"
    embed(manifest, tmp_path, untrained=7, batch=4, readers=0)
    assert "2 kept from before" in capsys.readouterr().out


def test_a_slide_that_fails_gives_status_1(tmp_path: Path) -> None:
    manifest = embedded_folder(tmp_path, "a", "b")
    (tmp_path / "b.tiff").write_text("no slide")
    write_onnx(tmp_path / "tiny.onnx", TinyNetwork(keep_map=False))
    with pytest.raises(typer.Exit) as stopped:
        embed(manifest, tmp_path, onnx=tmp_path / "tiny.onnx", batch=4, readers=0)
    assert stopped.value.exit_code == 1
    assert "b,embed," in (tmp_path / "failures.csv").read_text()
    bag = read_bag(tmp_path / "features" / "a.h5")
    assert (bag.shape, bag.facts.encoder) == ((4, 5), "onnx tiny")


def test_wrong_words_are_told_before_any_work(tmp_path: Path) -> None:
    manifest = embedded_folder(tmp_path, "a")
    with pytest.raises(InputError, match="Which network"):
        embed(manifest, tmp_path)
    with pytest.raises(InputError, match="There is no file"):
        embed(manifest, tmp_path, weights=tmp_path / "none.pth", device="cpu")
    assert not (tmp_path / "features").exists()
