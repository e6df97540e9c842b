from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcox.errors import InputError, WeightsError
from fedcox.slides.bag_file import read_bag
from fedcox.slides.embedding import embed_slides
from fedcox.slides.encoder import AbstractPending, load_encoder
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.slide import open_slide
from fedcox.slides.step import StepProgress, read_failures
from tests.slides.embedding_examples import MPP, MeanColour, tiled_slide
from tests.slides.one_thread import one_thread  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"a": 5, "b": 12, "c": 7}


def some_slides(
    work: Path, sizes: Mapping[str, int] = SIZES, side: int = 64
) -> list[ManifestRow]:
    return [
        tiled_slide(work, name, tiles, seed=number, side=side)
        for number, (name, tiles) in enumerate(sizes.items())
    ]


def contents(work: Path) -> dict[str, bytes]:
    """Everything in the folder of features, leftovers included."""
    return {path.name: path.read_bytes() for path in (work / "features").iterdir()}


def test_every_tile_gets_its_own_features(tmp_path: Path) -> None:
    slides = some_slides(tmp_path)
    encoder = MeanColour()
    seen: list[StepProgress] = []
    outcome = embed_slides(slides, tmp_path, encoder, batch=4, watch=seen.append)
    assert outcome.made == ("a", "b", "c")
    assert outcome.tiles == 24 == seen[-1].tiles
    assert set(encoder.batches) == {4}  # the last batch of a slide is filled up
    for slide in slides:
        bag = read_bag(tmp_path / "features" / f"{slide.slide_id}.h5")
        tiles = read_bag(tmp_path / "tiles" / f"{slide.slide_id}.h5")
        assert bag.coords is not None
        assert tiles.coords is not None
        assert slide.path is not None
        np.testing.assert_array_equal(bag.coords, tiles.coords)
        with open_slide(slide.path) as opened:
            expected = [
                opened.read_tile(x, y, 64, MPP).mean(axis=(0, 1)) for x, y in bag.coords
            ]
        np.testing.assert_allclose(bag.read(), np.array(expected), rtol=1e-3)
        assert bag.facts.stage == "raw"
        assert (bag.facts.encoder, bag.facts.encoder_sha256) == ("mean colour", encoder.sha256)
        assert (bag.facts.tile_px, bag.facts.mpp) == (64, MPP)


@pytest.mark.parametrize(("batch", "readers"), [(1, 0), (5, 1), (64, 2)])
def test_the_files_do_not_depend_on_batches_or_readers(
    batch: int, readers: int, tmp_path: Path
) -> None:
    slides = some_slides(tmp_path)
    embed_slides(slides, tmp_path, MeanColour(), batch=4)
    before = contents(tmp_path)
    for path in (tmp_path / "features").iterdir():
        path.unlink()
    embed_slides(slides, tmp_path, MeanColour(), batch=batch, readers=readers)
    assert contents(tmp_path) == before


def test_what_is_done_is_kept_and_what_is_not_is_done(tmp_path: Path) -> None:
    slides = some_slides(tmp_path)
    embed_slides(slides[:2], tmp_path, MeanColour())
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "features").iterdir()}
    outcome = embed_slides(slides, tmp_path, MeanColour())
    assert (outcome.made, outcome.kept) == (("c",), ("a", "b"))
    for name, then in times.items():
        assert (tmp_path / "features" / name).stat().st_mtime_ns == then
    # Another encoder's features are no use, and neither are those of other tiles.
    other = embed_slides(slides[:1], tmp_path, MeanColour(2.0))
    assert other.redone == ("a",)
    tiled_slide(tmp_path, "b", 3)
    assert embed_slides(slides[1:], tmp_path, MeanColour()).redone == ("b",)
    # A slide that is done needs its scan no more.
    for slide in slides:
        assert slide.path is not None
        slide.path.unlink()
    assert embed_slides(slides[1:], tmp_path, MeanColour()).kept == ("b", "c")


def test_slides_that_cannot_be_used_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    slides = some_slides(tmp_path)
    untiled = ManifestRow("untiled", "p", "A", slides[0].path)
    gone = tiled_slide(tmp_path, "gone", 3)
    torn = tiled_slide(tmp_path, "torn", 3)
    nowhere = tiled_slide(tmp_path, "nowhere", 3)
    assert gone.path is not None
    assert torn.path is not None
    gone.path.unlink()
    torn.path.write_bytes(torn.path.read_bytes()[:20_000])
    nowhere = ManifestRow("nowhere", "p", "A", None)
    outcome = embed_slides(
        [untiled, gone, slides[0], torn, nowhere, slides[1]], tmp_path, MeanColour(), batch=4
    )
    assert outcome.made == ("a", "b")
    reasons = {
        name: reason for name, step, reason in read_failures(tmp_path) if step == "embed"
    }
    assert set(reasons) == {"untiled", "gone", "torn", "nowhere"} == set(outcome.failed)
    assert "fedcox slides tile" in reasons["untiled"]
    assert "no file" in reasons["gone"]
    assert "truncated" in reasons["torn"]
    assert "names no file" in reasons["nowhere"]
    assert set(contents(tmp_path)) == {"a.h5", "b.h5"}
    # Mended, they are taken up, and the reasons go.
    tiled_slide(tmp_path, "torn", 3)
    embed_slides([gone, torn], tmp_path, MeanColour())
    left = {name for name, step, _ in read_failures(tmp_path) if step == "embed"}
    assert left == {"untiled", "gone", "nowhere"}


@pytest.mark.parametrize("scale", [1e6, np.nan])
def test_features_that_cannot_be_kept_fail_their_slide(scale: float, tmp_path: Path) -> None:
    slides = some_slides(tmp_path)
    with np.errstate(all="ignore"):
        outcome = embed_slides(slides, tmp_path, MeanColour(scale))
    assert set(outcome.failed) == {"a", "b", "c"}
    assert contents(tmp_path) == {}


def test_tiles_of_several_sizes_are_embedded_apart(tmp_path: Path) -> None:
    slides = [
        tiled_slide(tmp_path, "large", 6, seed=0, side=128),
        tiled_slide(tmp_path, "small", 6, seed=1),
        tiled_slide(tmp_path, "huge", 1, seed=2, side=256),
    ]
    outcome = embed_slides(slides, tmp_path, MeanColour(), batch=2)
    assert set(outcome.made) == {"large", "small", "huge"}


class Unfit(MeanColour):
    def submit(self, tiles: NDArray[np.uint8]) -> AbstractPending:
        raise WeightsError("It takes no such tiles.")


def test_an_encoder_that_does_not_fit_ends_the_step_and_frees_its_slides(
    tmp_path: Path,
) -> None:
    slides = some_slides(tmp_path)
    with pytest.raises(WeightsError):
        embed_slides(slides, tmp_path, Unfit())
    assert contents(tmp_path) == {}


def test_settings_that_make_no_sense_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        embed_slides([], tmp_path, MeanColour(), batch=0, readers=-1)
    assert len(told.value.faults) == 2


#: The whole of `embed` in a process of its own, which holds still inside its second slide, once
#: the first has been noted as done: its file is written beside, as late as the disk likes.
CHILD = """
import sys, time
from pathlib import Path

def watch(at):
    if (at.slide_id, at.outcome) != ("b", "working"):
        return
    if at.done == 1:
        print("inside", flush=True)
        time.sleep(600)
    until = time.monotonic() + 60
    while not (work / "features" / "a.h5").exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.5)  # the writer comes back from a file that is in its place

if __name__ == "__main__":  # what is imported above this line, the reader imports again
    import torch
    from fedcox.slides.embedding import embed_slides
    from fedcox.slides.encoder import load_encoder
    from fedcox.slides.manifest import ManifestRow

    torch.set_num_threads(1)
    work = Path(sys.argv[1])
    slides = [ManifestRow(name, name, "A", work / f"{name}.tiff") for name in "abc"]
    encoder = load_encoder(untrained=0)
    embed_slides(slides, work, encoder, batch=2, readers=1, watch=watch)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes as Linux does")
def test_killed_in_the_middle_and_run_again_the_files_are_the_same(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    sizes = {"a": 2, "b": 5, "c": 3}
    encoder = load_encoder(untrained=0)
    embed_slides(some_slides(whole, sizes, 32), whole, encoder, batch=2, readers=0)
    slides = some_slides(killed, sizes, 32)
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    with subprocess.Popen(
        [sys.executable, script, killed],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "inside\n"
        readers = children(child.pid)
        child.send_signal(signal.SIGKILL)
    assert "a.h5" in contents(killed)
    assert "b.h5.claim" in contents(killed)
    assert "b.h5" not in contents(killed)
    assert readers
    (killed / "features" / ".b.h5.1.part").write_bytes(b"half of a file")
    wait_until_gone(readers)
    outcome = embed_slides(slides, killed, encoder, batch=2, readers=0)
    assert (outcome.kept, outcome.made) == (("a",), ("b", "c"))
    assert contents(killed) == contents(whole)


def children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in told.split()]


def wait_until_gone(pids: list[int]) -> None:
    """Readers see that they are alone by the end of their pipe; no signal reaches them."""
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a reader outlived the process that it read for"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Ended children of a killed process may stay as zombies where nobody collects them."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"
