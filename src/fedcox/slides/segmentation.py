"""The step `segment`: from a slide to the mask of its tissue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedcox.errors import SlideError
from fedcox.files.writing import whole_file
from fedcox.slides.mask_file import (
    SCHEMA,
    SlideTissue,
    read_mask,
    write_mask,
    write_outlines,
)
from fedcox.slides.region import Region
from fedcox.slides.slide import Pixels, open_slide, tells_mpp
from fedcox.slides.step import AbstractStep, Settings, SlideRow, slide_file
from fedcox.slides.tissue import AbstractTissueFinder, OtsuTissue, without_specks_and_holes
from fedcox.slides.work_files import mask_path


@dataclass(frozen=True)
class Segmentation(AbstractStep):
    """Writes masks/SLIDE.png and, for QuPath, masks/SLIDE.geojson.

    Areas in square micrometres: smaller holes are filled, smaller pieces dropped. With
    `overviews` also overviews/SLIDE.png, the picture that the mask is of.
    """

    finder: AbstractTissueFinder = field(default_factory=OtsuTissue)
    speck_um2: float = 50_000.0
    hole_um2: float = 50_000.0
    assume_mpp: float | None = None
    overviews: bool = False

    @property
    def name(self) -> str:
        return "segment"

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
            _write_picture(_overview_path(target), picture)
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
            found = self.finder.find(picture)
            clean = without_specks_and_holes(found, mpp, self.speck_um2, self.hole_um2)
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


def _write_picture(path: Path, picture: Pixels) -> None:
    from PIL import Image

    with whole_file(path) as part:
        Image.fromarray(picture).save(part, "PNG")
