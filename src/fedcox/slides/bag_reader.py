"""Open a slide's features, whoever wrote them: our own layout and those of six others.

Only their files are read; none of their code is used. To add a layout, write an AbstractLayout
and name it in LAYOUTS, before any whose `fits` would take its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedcox.errors import SlideError
from fedcox.slides.array_layouts import Flamby, Owkin, Slideflow
from fedcox.slides.feature_files import (
    AbstractLayout,
    KnownSlide,
    OpenedBag,
    is_hdf5,
    opened_hdf5,
)
from fedcox.slides.hdf5_layouts import Clam, Own, Stamp, Trident

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
