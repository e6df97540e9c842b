"""From the tiles of a folder's slides to their files of features.

Reader processes are ahead of the encoder, and the file of one slide is written while the next
is encoded. A slide's file depends on the slide, its tiles and the encoder, and on nothing
else: a run that was killed and begun again ends with the same bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError, SlideError, from_extra
from fedcox.slides.bag_file import BagFacts, read_bag, write_bag
from fedcox.slides.encoder import AbstractEncoder, AbstractPending, Features
from fedcox.slides.mask_file import mask_settings
from fedcox.slides.reader_process import TileSource
from fedcox.slides.readers import SlideTiles, TileBatch, TileReaders, UnreadableSlide
from fedcox.slides.step import (
    AbstractStepFiles,
    Settings,
    SlideRow,
    StepOutcome,
    StepRun,
    Watch,
    features_path,
    mask_path,
    slide_file,
    tiles_path,
)

#: Slides whose files wait to be written; more would only fill the memory.
_WAITING_TO_BE_WRITTEN = 2


@dataclass(frozen=True)
class FeatureFiles(AbstractStepFiles):
    """WORK/features/<slide_id>.h5 of one encoder."""

    name = "embed"

    encoder: AbstractEncoder

    def target(self, slide_id: str, work: Path) -> Path:
        return features_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        tiles = tiles_of(slide, work).digest
        return {
            "encoder_sha256": self.encoder.sha256,
            "precision": self.encoder.precision,
            # Tiles of another file give no features: none may be kept.
            "tiles": None if is_replaced(slide, work) else tiles,
        }


def embed_slides(
    slides: Sequence[SlideRow],
    work: Path,
    encoder: AbstractEncoder,
    *,
    batch: int = 32,
    readers: int = 0,
    watch: Watch = lambda _: None,
) -> StepOutcome:
    """Write the features of every slide that has tiles in `work` and no features yet.

    `batch` tiles are encoded at once; `readers` processes read them, or this one where it is 0.
    """
    _check(batch, readers)
    files = FeatureFiles(encoder)
    run = StepRun(files, work, watch, len(slides))
    try:
        left = [slide for slide in slides if not run.is_kept(slide)]
        for tile_px, group in _by_tile_size(left, work).items():
            with (
                TileReaders(readers, batch, tile_px, held=encoder.in_flight) as tile_readers,
                encoder.reads_from(tile_readers.memory),
            ):
                _Pipeline(run, files, work, tile_readers).embed(group)
    finally:
        run.close()
    return run.outcome()


@dataclass(frozen=True, eq=False)
class TiledSlide:
    """A slide's file of tiles: sides are `tile_px` pixels of `mpp` micrometres."""

    facts: BagFacts
    coords: NDArray[np.int32]
    digest: str
    tile_px: int
    mpp: float


def tiles_of(slide: SlideRow, work: Path) -> TiledSlide:
    """Where the slide's tiles are; SlideError where it has not been tiled."""
    path = tiles_path(slide.slide_id, work)
    if not path.is_file():
        raise SlideError("The slide has no tiles yet.", ["Say: fedcox slides tile"])
    bag = read_bag(path)
    side, micrometres = bag.facts.tile_px, bag.facts.tile_um
    if bag.coords is None or side is None or micrometres is None:
        raise SlideError(
            f"{path.name} lacks the places or the size of its tiles.", ["Tile anew."]
        )
    return TiledSlide(bag.facts, bag.coords, bag.digest, side, micrometres / side)


def is_replaced(slide: SlideRow, work: Path) -> bool:
    """Whether the slide's file is another than that whose tissue was found, as its size tells.

    A file that is gone was not replaced; without a mask nobody can tell.
    """
    if slide.path is None or not slide.path.exists():
        return False
    size = (mask_settings(mask_path(slide.slide_id, work)) or {}).get("slide_bytes")
    return size is not None and size != slide.path.stat().st_size


def _check(batch: int, readers: int) -> None:
    faults = []
    if batch < 1:
        faults.append(f"A batch of {batch} tiles; 1 or more are needed.")
    if readers < 0:
        faults.append(f"{readers} readers; 0 or more are needed.")
    if faults:
        raise InputError("Slides cannot be embedded so.", faults)
    with from_extra("openslide-python", "slides"):
        import openslide  # noqa: F401  # readers use it in processes of their own


def _by_tile_size(slides: Sequence[SlideRow], work: Path) -> Mapping[int, list[SlideRow]]:
    """Slides by the side of their tiles: batches, and the memory for them, have one shape."""
    groups: dict[int, list[SlideRow]] = {}
    for slide in slides:
        groups.setdefault(tiles_of(slide, work).tile_px, []).append(slide)
    return groups


@dataclass(eq=False)
class _UnderWay:
    """A slide between its first batch and its file."""

    slide: SlideRow
    tiles: TiledSlide
    settings: Settings
    features: Features | None = None
    filled: int = 0

    def put(self, batch: TileBatch, features: Features) -> None:
        if self.features is None:
            self.features = np.empty((len(self.tiles.coords), features.shape[1]), np.float32)
        self.features[batch.first : batch.first + batch.count] = features[: batch.count]
        self.filled += batch.count

    @property
    def is_whole(self) -> bool:
        return self.filled == len(self.tiles.coords)


_Write: TypeAlias = tuple[_UnderWay, "Future[None]"]


class _Pipeline:
    """Slides of one tile size: read, encoded, and written, all at the same time."""

    def __init__(
        self, run: StepRun, files: FeatureFiles, work: Path, readers: TileReaders
    ) -> None:
        self._run, self._files, self._work, self._readers = run, files, work, readers
        self._encoder = files.encoder
        self._under_way: dict[str, _UnderWay] = {}
        self._encoding: deque[tuple[TileBatch, AbstractPending]] = deque()
        self._writing: deque[_Write] = deque()

    def embed(self, slides: Sequence[SlideRow]) -> None:
        with ThreadPoolExecutor(1, "fedcox-writer") as writer:
            for found in self._readers.batches(self._begun(slides)):
                if isinstance(found, UnreadableSlide):
                    unread = self._under_way.pop(found.slide_id).slide
                    self._run.fail(unread, SlideError(found.reason))
                    continue
                self._encoding.append((found, self._encoder.submit(found.tiles)))
                if len(self._encoding) >= self._encoder.in_flight:
                    self._take_features(writer)
            while self._encoding:
                self._take_features(writer)
            self._settle(still_waiting=0)

    def _begun(self, slides: Sequence[SlideRow]) -> Iterator[SlideTiles]:
        for slide in slides:
            if not self._run.begin(slide):
                continue
            try:
                file, tiles = _same_file(slide, self._work), tiles_of(slide, self._work)
                settings = self._files.settings(slide, self._work)
            except SlideError as error:
                self._run.fail(slide, error)
                continue
            self._under_way[slide.slide_id] = _UnderWay(slide, tiles, settings)
            source = TileSource(str(file), tiles.facts.mpp, tiles.tile_px, tiles.mpp)
            yield SlideTiles(slide.slide_id, source, tiles.coords)

    def _take_features(self, writer: ThreadPoolExecutor) -> None:
        batch, pending = self._encoding.popleft()
        features = pending.features()
        self._readers.give_back(batch)
        one = self._under_way.get(batch.slide_id)
        if one is None:  # a later tile of it could not be read
            return
        one.put(batch, features)
        self._run.tick(one.slide, batch.count)
        if one.is_whole:
            del self._under_way[batch.slide_id]
            self._writing.append((one, writer.submit(self._write, one)))
        self._settle(still_waiting=_WAITING_TO_BE_WRITTEN)

    def _write(self, one: _UnderWay) -> None:
        facts = replace(
            one.tiles.facts,
            stage="raw",
            encoder=self._encoder.name,
            encoder_sha256=self._encoder.sha256,
            settings=one.settings,
        )
        target = self._files.target(one.slide.slide_id, self._work)
        write_bag(target, facts, one.tiles.coords, one.features)

    def _settle(self, *, still_waiting: int) -> None:
        """Note the files that are written; wait where more than so many are not."""
        while self._writing and (
            len(self._writing) > still_waiting or self._writing[0][1].done()
        ):
            one, written = self._writing.popleft()
            try:
                written.result()
            except SlideError as error:
                self._run.fail(one.slide, error)
            else:
                self._run.finish(one.slide, one.filled)


def _same_file(slide: SlideRow, work: Path) -> Path:
    """The slide's file; SlideError where its tissue was found on another one."""
    if is_replaced(slide, work):
        raise SlideError(
            "The slide's file is not the one that its tissue was found on: its size differs.",
            ["Say: fedcox slides segment, and fedcox slides tile"],
        )
    return slide_file(slide)
