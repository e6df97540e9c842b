from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides import readers as reader_pool
from fedcox.slides.reader_process import TileSource
from fedcox.slides.readers import SlideTiles, TileBatch, TileReaders, UnreadableSlide
from fedcox.slides.slide import open_slide
from tests.slides.embedding_examples import MPP, grid, write_slide
from tests.slides.failing_reader import fail_at_once

SIDE = 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slides")
    for number in range(3):
        write_slide(folder / f"{number}.tiff", seed=number)
    (folder / "text.tiff").write_text("no slide")
    return folder


def tiles_of(folder: Path, name: str, tiles: int) -> SlideTiles:
    source = TileSource(str(folder / f"{name}.tiff"), MPP, SIDE, MPP)
    return SlideTiles(name, source, grid(tiles, SIDE))


def read_here(folder: Path, slide: SlideTiles) -> NDArray[np.uint8]:
    with open_slide(slide.source.path) as opened:
        tiles = [opened.read_tile(int(x), int(y), SIDE, MPP) for x, y in slide.coords]
    return np.stack(tiles)


def joined(
    readers: TileReaders, slides: Sequence[SlideTiles]
) -> tuple[dict[str, NDArray[np.uint8]], dict[str, str], list[tuple[str, int, int]]]:
    """Tiles by slide, reasons by slide, and the order of batches."""
    parts: dict[str, list[NDArray[np.uint8]]] = {}
    reasons: dict[str, str] = {}
    order = []
    for found in readers.batches(slides):
        if isinstance(found, UnreadableSlide):
            assert found.slide_id not in reasons
            reasons[found.slide_id] = found.reason
            continue
        assert not found.tiles[found.count :].any()
        parts.setdefault(found.slide_id, []).append(found.tiles[: found.count].copy())
        order.append((found.slide_id, found.first, found.count))
        found.tiles[:] = 77  # what comes next must not depend on what was there
        readers.give_back(found)
    return {name: np.concatenate(one) for name, one in parts.items()}, reasons, order


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    batch=st.integers(1, 9),
    held=st.integers(1, 3),
)
def test_batches_come_in_order_and_whole(
    sizes: list[int], batch: int, held: int, folder: Path
) -> None:
    slides = [tiles_of(folder, str(number), tiles) for number, tiles in enumerate(sizes)]
    with TileReaders(0, batch, SIDE, held=held) as readers:
        tiles, reasons, order = joined(readers, slides)
    assert not reasons
    assert order == [
        (str(number), first, min(batch, size - first))
        for number, size in enumerate(sizes)
        for first in range(0, size, batch)
    ]
    for slide in slides:
        np.testing.assert_array_equal(tiles[slide.slide_id], read_here(folder, slide))


@pytest.mark.parametrize("count", [0, 2])
def test_readers_give_what_one_process_reads_and_pass_over_what_is_no_slide(
    count: int, folder: Path
) -> None:
    slides = [tiles_of(folder, name, 150) for name in ("0", "text", "none", "1", "2")]
    with TileReaders(count, 40, SIDE, held=2) as readers:
        pids = readers.pids
        tiles, reasons, order = joined(readers, slides)
    assert len(pids) == count
    assert list(reasons) == ["text", "none"]
    assert "not a slide" in reasons["text"]
    assert "no file" in reasons["none"]
    assert [name for name, _, _ in order] == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    for slide in (slides[0], slides[3], slides[4]):
        np.testing.assert_array_equal(tiles[slide.slide_id], read_here(folder, slide))
    assert not any(is_running(pid) for pid in pids)


def test_a_reader_that_is_killed_fails_its_slide_and_nothing_else(folder: Path) -> None:
    slides = [tiles_of(folder, name, 40) for name in ("0", "1", "2")]
    with TileReaders(1, 40, SIDE, held=1) as readers:
        (pid,) = readers.pids
        found = readers.batches(iter(slides))
        first = next(found)
        assert isinstance(first, TileBatch)
        # Stopped, it cannot finish what it has; then it is killed while it is waited for.
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        readers.give_back(first)
        tiles, reasons, _ = joined_rest(readers, found)
        assert pid not in readers.pids
    lost = set(reasons)
    assert lost in ({"1"}, {"2"})
    assert all("killed by SIGKILL" in reason for reason in reasons.values())
    for slide in slides[1:]:
        if slide.slide_id not in lost:
            np.testing.assert_array_equal(tiles[slide.slide_id], read_here(folder, slide))


def joined_rest(
    readers: TileReaders, found: Iterator[TileBatch | UnreadableSlide]
) -> tuple[dict[str, NDArray[np.uint8]], dict[str, str], int]:
    tiles, reasons, batches = {}, {}, 0
    for one in found:
        if isinstance(one, UnreadableSlide):
            reasons[one.slide_id] = one.reason
            continue
        tiles[one.slide_id] = one.tiles[: one.count].copy()
        batches += 1
        readers.give_back(one)
    return tiles, reasons, batches


def test_readers_that_cannot_start_end_the_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_pool, "serve", fail_at_once)
    with (
        TileReaders(1, 8, SIDE, held=1) as readers,
        pytest.raises(InputError, match="ended at once, with status 3") as told,
    ):
        list(readers.batches([tiles_of(folder, "0", 8)]))
    assert "--readers 0" in told.value.faults[0]


def test_an_error_ends_the_readers_and_leaves_no_memory(folder: Path) -> None:
    before = mapped_memories()
    pids: list[int] = []

    def interrupted() -> None:
        with TileReaders(1, 8, SIDE, held=1) as readers:
            pids.extend(readers.pids)
            next(readers.batches([tiles_of(folder, "0", 64)]))
            assert mapped_memories() > before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 1
    assert not is_running(pids[0])
    assert mapped_memories() == before


def mapped_memories() -> int:
    gc.collect()  # of an earlier test's readers
    return Path("/proc/self/maps").read_text().count("memfd:fedcox-tiles")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
