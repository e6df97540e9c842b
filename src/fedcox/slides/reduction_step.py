"""The step that reduces every slide's features: features/*.h5 become reduced/*.h5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedcox.errors import InputError, SlideError
from fedcox.slides.bag_file import BagFacts, BagFile, kept_settings, write_bag
from fedcox.slides.bag_reader import feature_path, open_bag
from fedcox.slides.opened_bag import KnownSlide, OpenedBag
from fedcox.slides.reduction import Reducer
from fedcox.slides.step import AbstractStep, Settings, SlideRow
from fedcox.slides.work_files import reduced_path


@dataclass(frozen=True, eq=False)
class ReduceStep(AbstractStep):
    """One reducer for all slides.

    `bags` are those that go together and `faults` says why others do not, by slide; their
    files are in `folder`. A file that another reducer made is made anew. `deepzoom_tile_px` as
    in `KnownSlide`.
    """

    reducer: Reducer
    bags: Mapping[str, OpenedBag]
    faults: Mapping[str, str]
    folder: Path
    deepzoom_tile_px: int | None = None

    @property
    def name(self) -> str:
        return "reduce"

    def target(self, slide_id: str, work: Path) -> Path:
        return reduced_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        bag = self.bags.get(slide.slide_id)
        if bag is None:
            feature_path(self.folder, slide.slide_id)  # SlideError where it has none
        # Features that cannot be used have no digest: what was made of others is not kept.
        digest = None if bag is None else bag.digest
        return {
            "reducer": self.reducer.sha256,
            "features": digest,
            "deepzoom_tile_px": self.deepzoom_tile_px,
        }

    def kept_settings(self, target: Path) -> Settings | None:
        return kept_settings(target)

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        if slide.slide_id not in self.bags:
            raise SlideError(self.faults[slide.slide_id])
        bag = self._with_places(slide)
        reduced = self.reducer.apply(bag.features.read())
        facts = replace(
            _facts(slide.slide_id, bag),
            stage="reduced",
            reducer_sha256=self.reducer.sha256,
            settings=self.settings(slide, work),
        )
        write_bag(self.target(slide.slide_id, work), facts, bag.coords, reduced)
        return len(reduced)

    def _with_places(self, slide: SlideRow) -> OpenedBag:
        """With places in pixels also where the layout needs the slide itself for them."""
        bag = self.bags[slide.slide_id]
        if bag.coords is not None or slide.path is None or not slide.path.exists():
            return bag
        try:
            known = replace(_known(slide.path), deepzoom_tile_px=self.deepzoom_tile_px)
        except InputError:
            return bag  # features count without places; a heatmap will say what it lacks
        return open_bag(feature_path(self.folder, slide.slide_id), known)


def _known(path: Path) -> KnownSlide:
    from fedcox.slides.slide import open_slide

    with open_slide(path) as slide:
        return KnownSlide(slide.mpp, slide.size)


def _facts(slide_id: str, bag: OpenedBag) -> BagFacts:
    if isinstance(bag.features, BagFile):
        return bag.features.facts
    return BagFacts(
        slide_id,
        "raw",
        mpp=bag.mpp,
        tile_px_level0=bag.tile_px_level0,
        encoder=bag.encoder or "",
        encoder_sha256=bag.encoder_sha256 or "",
    )
