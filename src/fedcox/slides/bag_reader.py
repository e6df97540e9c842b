"""Open a slide's features, whoever wrote them: our own layout and those of six others.

Only their files are read; none of their code is used. To add a layout, write an AbstractLayout
and name it in LAYOUTS, before any whose `fits` would take its files.

Here are the layouts in HDF5: our own, and those of CLAM, TRIDENT and STAMP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedcox.errors import SlideError
from fedcox.slides.array_layouts import Flamby, Owkin, Slideflow
from fedcox.slides.bag_file import SCHEMA, read_bag
from fedcox.slides.feature_files import (
    AbstractLayout,
    Hdf5Bag,
    KnownSlide,
    OpenedBag,
    StoredFeatures,
    bag_shape,
    check_places,
    hdf5_features,
    is_hdf5,
    number,
    opened_hdf5,
    read_hdf5,
    stat_digest,
    table_shape,
    text,
    torch_array,
)
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class Own(AbstractLayout):
    """`SLIDE.h5` with a schema, as `bag_file.py` writes it."""

    name = "fedcox"

    def fits(self, path: Path) -> bool:
        if not is_hdf5(path):
            return False
        with opened_hdf5(path) as file:
            return bool(file.attrs.get("schema") == SCHEMA)

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_bag(path)
        facts = bag.facts
        coords = None if bag.coords is None else bag.coords.astype(np.float64)
        return OpenedBag(
            bag,
            self.name,
            bag.digest,
            coords,
            "" if coords is not None else "The features it was made of had no places.",
            encoder=facts.encoder or None,
            encoder_sha256=facts.encoder_sha256 or None,
            reducer_sha256=facts.reducer_sha256,
            mpp=facts.mpp or known.mpp,
            tile_px_level0=facts.tile_px_level0,
            tissue_tiles=facts.n_tissue_tiles,
        )


@dataclass(frozen=True)
class Clam(AbstractLayout):
    """CLAM: `h5_files/SLIDE.h5`, or `pt_files/SLIDE.pt` whose places are in the former.

    Places are upper left corners in pixels of level 0. The encoder is not named, nor is the
    size of tiles: that is told by the file in `patches`, which the features were made from.
    """

    name = "CLAM"

    def fits(self, path: Path) -> bool:
        if path.suffix == ".pt":
            return path.is_file()
        return is_hdf5(path) and "features" in read_hdf5(path, "features").shapes

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        return self._tensor(path, known) if path.suffix == ".pt" else self._hdf5(path, known)

    def _hdf5(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "features")
        return replace(
            _with_corners(path, bag, self.name), mpp=known.mpp, tile_px_level0=_side(path, bag)
        )

    def _tensor(self, path: Path, known: KnownSlide) -> OpenedBag:
        shape = table_shape(path, torch_array(path).shape)
        beside = path.parent.parent / "h5_files" / f"{path.stem}.h5"
        bag = _beside(beside)
        coords = None if bag is None else bag.coords
        check_places(path, shape[0], coords)
        return OpenedBag(
            StoredFeatures(path, shape, torch_array),
            self.name,
            stat_digest(path, beside),
            coords,
            "" if coords is not None else "There is no file of its name in h5_files beside it.",
            mpp=known.mpp,
            tile_px_level0=None if bag is None else _side(beside, bag),
        )


def _with_corners(path: Path, bag: Hdf5Bag, layout: str) -> OpenedBag:
    """The `features` of a file whose `coords`, if any, are corners in pixels of level 0."""
    return OpenedBag(
        hdf5_features(path, bag_shape(path, bag, "features"), "features"),
        layout,
        stat_digest(path),
        bag.coords,
        "" if bag.coords is not None else "The file has no coords.",
    )


def _beside(path: Path) -> Hdf5Bag | None:
    try:
        return read_hdf5(path, "features") if path.is_file() else None
    except SlideError:
        return None  # the tensor holds the features; only places are lost


def _side(path: Path, bag: Hdf5Bag) -> float | None:
    """Of a tile at level 0, as the places' own file tells it, or by the tiles' distance."""
    patches = _beside(path.parent.parent / "patches" / path.name)
    side = patch_px(bag) or (None if patches is None else patch_px(patches))
    return side or usual_step(bag.coords)


def usual_step(coords: FloatArray | None) -> float | None:
    """How far a tile lies from the one before it, most often; None where that is not clear.

    Tiles are written column by column, and side by side unless somebody asks otherwise.
    """
    if coords is None or len(coords) < 2:
        return None
    steps = np.diff(coords, axis=0)
    along = steps[(steps == 0).any(axis=1) & (steps > 0).any(axis=1)].max(axis=1)
    sizes, counts = np.unique(along, return_counts=True)
    if not counts.size or 2 * counts.max() < len(along):
        return None
    return float(sizes[counts.argmax()])


def patch_px(bag: Hdf5Bag) -> float | None:
    """The side of a tile at level 0, where it can be told."""
    side = number(bag.attribute("patch_size_level0"))
    if side is not None:
        return side
    size, downsample = number(bag.attribute("patch_size")), number(bag.attribute("downsample"))
    if size is None:
        return None
    at_level_0 = np.ravel(bag.attribute("patch_level"))[:1].tolist() == [0]
    if downsample is not None:
        return size * downsample
    return size if at_level_0 else None


#: Attributes that TRIDENT writes and CLAM does not.
_MARKS = ("encoder", "overlap", "target_magnification", "level0_magnification")


@dataclass(frozen=True)
class Trident(AbstractLayout):
    """TRIDENT: `features_ENCODER/SLIDE.h5`, whose attributes name the encoder.

    Places are upper left corners in pixels of level 0.
    """

    name = "TRIDENT"

    def fits(self, path: Path) -> bool:
        if not is_hdf5(path):
            return False
        bag = read_hdf5(path, "features")
        return "features" in bag.shapes and any(
            bag.attribute(mark) is not None for mark in _MARKS
        )

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "features")
        return replace(
            _with_corners(path, bag, self.name),
            encoder=text(bag.attribute("encoder")),
            mpp=number(bag.attribute("mpp")) or known.mpp,
            tile_px_level0=patch_px(bag),
        )


@dataclass(frozen=True)
class Stamp(AbstractLayout):
    """STAMP: `SLIDE.h5` with `feats` and `coords`, places in micrometres.

    They become pixels by the slide's own resolution, which the file does not hold: its
    `tile_size_um` and `tile_size_px` are those of the tiles that the encoder saw.
    """

    name = "STAMP"

    def fits(self, path: Path) -> bool:
        return is_hdf5(path) and "feats" in read_hdf5(path, "feats").shapes

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "feats")
        shape = bag_shape(path, bag, "feats")
        missing = _missing(bag, known)
        # Until version 2 the size had no unit in its name.
        tile_um = number(bag.attribute("tile_size_um")) or number(bag.attribute("tile_size"))
        pixels = None
        if bag.coords is not None and known.mpp is not None and not missing:
            pixels = bag.coords / known.mpp
        return OpenedBag(
            hdf5_features(path, shape, "feats"),
            self.name,
            stat_digest(path),
            pixels,
            missing,
            encoder=text(bag.attribute("extractor")),
            mpp=known.mpp,
            tile_px_level0=tile_um / known.mpp if tile_um and known.mpp else None,
        )


def _missing(bag: Hdf5Bag, known: KnownSlide) -> str:
    """Why there are no places in pixels; nothing where there are."""
    if bag.coords is None:
        return "The file has no coords."
    unit = text(bag.attribute("unit"))
    if unit != "um":
        return f"The unit of its coords is {unit or 'not told'}; um is needed."
    if known.mpp is None:
        return "Its coords are micrometres, and the slide's resolution is not known."
    return ""


LAYOUTS: tuple[AbstractLayout, ...] = (
    Own(),
    Stamp(),
    Trident(),
    Slideflow(),
    Clam(),
    Owkin(),
    Flamby(),
)


_UNKNOWN = KnownSlide()
_SLIDE_ENDINGS = (".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".scn", ".bif", ".vms", ".svslide")


def open_bag(path: str | Path, known: KnownSlide = _UNKNOWN) -> OpenedBag:
    """The bag in this file or folder; SlideError where no layout fits, or it is not whole.

    `known` is what the caller knows of the slide itself. Some layouts need it to give places
    in pixels.
    """
    place = Path(path)
    if not place.exists():
        raise SlideError(f"There are no features at {place}.")
    for layout in LAYOUTS:
        if layout.fits(place):
            return layout.open(place, known)
    *most, last = [layout.name for layout in LAYOUTS]
    raise SlideError(
        f"The features in {place.name} are in no layout that is known.",
        [
            f"Found {_found(place)}. Known are the layouts of {', '.join(most)} and {last}: "
            "HDF5 with 'features' or 'feats', a tensor in .pt, an array in .npy, or a folder "
            "with features.npy."
        ],
    )


def feature_path(folder: str | Path, slide_id: str) -> Path:
    """Where in a folder the features of a slide are; SlideError where they are not.

    Folders of CLAM are looked into, and names may hold the slide's ending, as FLamby's do.
    """
    place = Path(folder)
    for candidate in _candidates(place, slide_id):
        if candidate.exists():
            return candidate
    raise SlideError(
        f"There are no features of slide '{slide_id}'.",
        [f"Looked in {place} for files and folders of its name."],
    )


def _candidates(folder: Path, slide_id: str) -> Iterator[Path]:
    for ending in (".h5", ".hdf5", ".pt", ".npy"):
        yield folder / f"{slide_id}{ending}"
    yield folder / "h5_files" / f"{slide_id}.h5"
    yield folder / "pt_files" / f"{slide_id}.pt"
    yield folder / slide_id / "features.npy"
    for ending in _SLIDE_ENDINGS:
        yield folder / f"{slide_id}{ending}.npy"
        yield folder / f"{slide_id}{ending}" / "features.npy"


def _found(path: Path) -> str:
    if path.is_dir():
        return "a folder without features.npy"
    if not is_hdf5(path):
        return f"a file that ends in '{path.suffix}'" if path.suffix else "a file of no ending"
    with opened_hdf5(path) as file:
        names = ", ".join(f"'{name}'" for name in file) or "nothing"
    return f"an HDF5 file with {names}"
