from __future__ import annotations

from pathlib import Path

import pytest
import typer

from fedcox.cli.slides.features import DeviceName, embed
from fedcox.errors import InputError
from fedcox.slides.bag_file import read_bag
from tests.slides.embedding_examples import TinyNetwork, tiled_slide, write_onnx
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


def folder(work: Path, *names: str) -> Path:
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
    manifest = folder(tmp_path, "a", "b")
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
    manifest = folder(tmp_path, "a", "b")
    (tmp_path / "b.tiff").write_text("no slide")
    write_onnx(tmp_path / "tiny.onnx", TinyNetwork(keep_map=False))
    with pytest.raises(typer.Exit) as stopped:
        embed(manifest, tmp_path, onnx=tmp_path / "tiny.onnx", batch=4, readers=0)
    assert stopped.value.exit_code == 1
    assert "b,embed," in (tmp_path / "failures.csv").read_text()
    bag = read_bag(tmp_path / "features" / "a.h5")
    assert (bag.shape, bag.facts.encoder) == ((4, 5), "onnx tiny")


def test_wrong_words_are_told_before_any_work(tmp_path: Path) -> None:
    manifest = folder(tmp_path, "a")
    with pytest.raises(InputError, match="Which network"):
        embed(manifest, tmp_path)
    with pytest.raises(InputError, match="There is no file"):
        embed(manifest, tmp_path, weights=tmp_path / "none.pth", device=DeviceName.cpu)
    assert not (tmp_path / "features").exists()
