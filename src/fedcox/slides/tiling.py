"""The step `tile`: from the mask of a slide to the places of its tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedcox.errors import InputError, SlideError
from fedcox.slides.bag_file import BagFacts, kept_settings, write_bag
from fedcox.slides.mask_file import SlideTissue, read_mask
from fedcox.slides.step import AbstractStep, Settings, SlideRow
from fedcox.slides.tiles import draw_tiles, tile_grid
from fedcox.slides.work_files import mask_path, tiles_path

# A level that is a little coarser than asked for is what a scanner calls the same: 0.5 may be
# 0.5021 in its file.
_COARSER = 1.05


@dataclass(frozen=True)
class Tiling(AbstractStep):
    """Writes tiles/SLIDE.h5: `coords` of the tiles drawn, `all_coords` of all with tissue.

    A tile is `tile_um` micrometres wide and is read at `mpp` micrometres per pixel.
    """

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

    @property
    def name(self) -> str:
        return "tile"

    def target(self, slide_id: str, work: Path) -> Path:
        return tiles_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        return self._settings(read_mask(mask_path(slide.slide_id, work))[0])

    def kept_settings(self, target: Path) -> Settings | None:
        return kept_settings(target)

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
