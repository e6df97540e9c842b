"""Two steps: `segment` makes the mask of a slide's tissue, `tile` the places of its tiles.

Tiles are squares of a grid in micrometres, where tissue is, drawn by a seed. They do not
overlap. Their corners are whole pixels of level 0; where a tile's side is not, neighbours share
or leave out less than one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError, SlideError
from fedcox.files.writing import whole_file
from fedcox.slides.bag_file import BagFacts, write_bag
from fedcox.slides.mask_file import SCHEMA, SlideTissue, read_mask, write_mask, write_outlines
from fedcox.slides.slide import Pixels, open_slide, tells_mpp
from fedcox.slides.step import (
    AbstractStep,
    Settings,
    SlideRow,
    mask_path,
    slide_file,
    tiles_path,
)
from fedcox.slides.tissue import (
    AbstractTissueFinder,
    OtsuTissue,
    Region,
    without_specks_and_holes,
)

# A share that equals the limit up to rounding is enough.
_ROUNDING = 1e-9
# A level that is a little coarser than asked for is what a scanner calls the same: 0.5 may be
# 0.5021 in its file.
_COARSER = 1.05


@dataclass(frozen=True)
class Segmentation(AbstractStep):
    """Writes masks/SLIDE.png and, for QuPath, masks/SLIDE.geojson.

    Areas in square micrometres: smaller holes are filled, smaller pieces dropped. With
    `overviews` also overviews/SLIDE.png, the picture that the mask is of.
    """

    name = "segment"

    finder: AbstractTissueFinder = field(default_factory=OtsuTissue)
    speck_um2: float = 50_000.0
    hole_um2: float = 50_000.0
    assume_mpp: float | None = None
    overviews: bool = False

    def target(self, slide_id: str, work: Path) -> Path:
        return mask_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        file = slide_file(slide)
        try:
            assumed = self.assume_mpp is not None and not tells_mpp(file)
        except SlideError:
            return {}  # no mask has these: finding its tissue will say what is wrong
        return {
            "schema": SCHEMA,
            **self.finder.settings,
            "speck_um2": self.speck_um2,
            "hole_um2": self.hole_um2,
            "assumed_mpp": self.assume_mpp if assumed else None,
            # A slide that was scanned or copied again has another size, nearly always.
            "slide_bytes": file.stat().st_size,
        }

    def kept_settings(self, target: Path) -> Settings | None:
        beside = [target.with_suffix(".geojson")]
        if self.overviews:
            beside.append(_overview_path(target))
        if not all(file.exists() for file in beside):
            return None
        try:
            return read_mask(target)[1]
        except SlideError:
            return None

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        """Counts no tiles: there are none yet."""
        target = self.target(slide.slide_id, work)
        outlines = target.with_suffix(".geojson")
        outlines.unlink(missing_ok=True)
        picture, tissue = self._tissue(slide_file(slide))
        if self.overviews:
            from PIL import Image

            with whole_file(_overview_path(target)) as part:
                Image.fromarray(picture).save(part, "PNG")
        write_outlines(outlines, tissue)
        # The mask comes last: where it is, the slide is done.
        write_mask(target, tissue, self.settings(slide, work))
        return 0

    def _tissue(self, file: Path) -> tuple[Pixels, SlideTissue]:
        mpp = self.finder.mpp
        with open_slide(file, self.assume_mpp) as slide:
            if slide.mpp > mpp:
                raise SlideError(
                    f"The slide has {slide.mpp:g} micrometres per pixel; tissue is looked for "
                    f"at {mpp:g}.",
                    ["Needed is a finer slide, or a coarser --mask-um."],
                )
            picture = slide.overview(mpp)
            tissue = self.finder.find(picture)
            clean = without_specks_and_holes(tissue, mpp, self.speck_um2, self.hole_um2)
            if not clean.any():
                raise SlideError(
                    "There is no tissue on the slide.",
                    [
                        "Look at it; pale tissue may need a U-Net of your own (--unet), small "
                        "pieces a smaller --speck-um2."
                    ],
                )
            region = Region(clean, mpp / slide.mpp)
            return picture, SlideTissue(region, slide.size, slide.mpp)


def _overview_path(mask: Path) -> Path:
    return mask.parent.parent / "overviews" / mask.name


def tile_grid(
    size: tuple[int, int], mpp: float, tile_um: float, tissue: Region, min_tissue: float
) -> NDArray[np.int32]:
    """(tiles, 2): upper left corners x, y of the tiles with at least `min_tissue` of tissue.

    `size` (width, height) and `mpp` are the slide's, at level 0. Row by row from the top.
    """
    side = tile_um / mpp
    across, down = (int(np.floor(length / side + _ROUNDING)) for length in size)
    y, x = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
    grid = np.column_stack([x.ravel(), y.ravel()]) * side
    corners = np.rint(grid).astype(np.int32)
    enough = tissue.share(corners, side) >= min_tissue - _ROUNDING
    return np.asarray(corners[enough])


def draw_tiles(
    coords: NDArray[np.int32], most: int, seed: int, slide_id: str
) -> NDArray[np.int32]:
    """At most `most` tiles without replacement, in the grid's order.

    The draw follows from (seed, slide_id): other slides of the cohort do not change it.
    """
    if len(coords) <= most:
        return coords
    words = np.frombuffer(sha256(slide_id.encode()).digest(), np.uint32)
    rng = np.random.default_rng([seed, *words.tolist()])
    return coords[np.sort(rng.choice(len(coords), most, replace=False))]


@dataclass(frozen=True)
class Tiling(AbstractStep):
    """Writes tiles/SLIDE.h5: `coords` of the tiles drawn, `all_coords` of all with tissue.

    A tile is `tile_um` micrometres wide and is read at `mpp` micrometres per pixel.
    """

    name = "tile"

    tile_um: float = 112.0
    mpp: float = 0.5
    max_tiles: int = 8000
    min_tissue: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if abs(self.tile_um / self.mpp - self.tile_px) > 1e-6 * self.tile_px:
            raise InputError(
                f"A tile of {self.tile_um:g} micrometres is {self.tile_um / self.mpp:g} pixels "
                f"wide at {self.mpp:g} micrometres per pixel.",
                [
                    "Needed is a whole number of pixels, such as --tile-um "
                    f"{self.tile_px * self.mpp:g} for {self.tile_px}."
                ],
            )

    @property
    def tile_px(self) -> int:
        """Pixels along a tile's side as the encoder sees it."""
        return max(1, round(self.tile_um / self.mpp))

    def target(self, slide_id: str, work: Path) -> Path:
        return tiles_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        return self._settings(read_mask(mask_path(slide.slide_id, work))[0])

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        tissue = read_mask(mask_path(slide.slide_id, work))[0]
        if tissue.mpp > self.mpp * _COARSER:
            raise SlideError(
                f"The slide has {tissue.mpp:g} micrometres per pixel, coarser than the "
                f"{self.mpp:g} asked for: its tiles would be blown up.",
                [f"Leave it out, or say --mpp {tissue.mpp:g} for all slides of the cohort."],
            )
        everywhere = tile_grid(
            tissue.size, tissue.mpp, self.tile_um, tissue.region, self.min_tissue
        )
        if not len(everywhere):
            raise SlideError(
                f"No tile of {self.tile_um:g} micrometres has {self.min_tissue:.0%} of tissue.",
                ["Leave the slide out, or say a smaller --min-tissue or --tile-um."],
            )
        drawn = draw_tiles(everywhere, self.max_tiles, self.seed, slide.slide_id)
        facts = BagFacts(
            slide.slide_id,
            "tiles",
            mpp=tissue.mpp,
            tile_px=self.tile_px,
            tile_um=self.tile_um,
            tile_px_level0=self.tile_um / tissue.mpp,
            seed=self.seed,
            n_tissue_tiles=len(everywhere),
            settings=self._settings(tissue),
        )
        target = self.target(slide.slide_id, work)
        write_bag(target, facts, drawn, all_coords=everywhere)
        return len(drawn)

    def _settings(self, tissue: SlideTissue) -> Settings:
        return {
            "tile_um": self.tile_um,
            "mpp": self.mpp,
            "max_tiles": self.max_tiles,
            "min_tissue": self.min_tissue,
            "seed": self.seed,
            "tissue_sha256": tissue.digest,
        }
