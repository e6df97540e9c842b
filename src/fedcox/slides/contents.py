"""What a file of the slides' pipeline holds, in words, and never a patient's value."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedcox.errors import InputError, SlideError, from_extra
from fedcox.slides.bag_file import SCHEMA as BAG_SCHEMA
from fedcox.slides.bag_file import BagFile, read_bag
from fedcox.slides.bag_reader import open_bag
from fedcox.slides.mask_file import read_mask
from fedcox.slides.slide import open_slide, tells_mpp

_SHOWN = 12
_LONGEST_TEXT = 100


@dataclass(frozen=True)
class Contents:
    """What kind of file it is, and its rows of (what, value)."""

    kind: str
    rows: tuple[tuple[str, str], ...]


def contents(path: str | Path) -> Contents:
    """SlideError where the file is of no known kind, or cannot be read."""
    file = Path(path)
    if not file.exists():
        raise SlideError(f"There is no file {file}.", ["Correct the name."])
    if file.suffix.lower() == ".safetensors":
        return _tensors(file)
    if file.suffix.lower() == ".png":
        return _mask(file)
    if file.suffix.lower() in (".h5", ".hdf5", ".npy", ".pt") or not _is_slide(file):
        return _bag(file)
    return _slide(file)


def _is_slide(file: Path) -> bool:
    with from_extra("openslide-python", "slides"):
        import openslide
    return openslide.OpenSlide.detect_format(file) is not None or file.suffix.lower() in (
        ".svs",
        ".tif",
        ".tiff",
        ".ndpi",
        ".mrxs",
        ".scn",
    )


def _slide(file: Path) -> Contents:
    has_mpp = tells_mpp(file)
    with open_slide(file, None if has_mpp else 1.0) as slide:
        width, height = slide.size
        rows = [("format", slide.vendor), ("pixels", f"{width:,} × {height:,}")]
        if has_mpp:
            wide, high = width * slide.mpp / 1000, height * slide.mpp / 1000
            rows += [
                ("micrometres per pixel", f"{slide.mpp:.4g}"),
                ("size", f"{wide:.2f} × {high:.2f} mm"),
            ]
        else:
            rows += [("micrometres per pixel", "not told; the steps need --assume-mpp")]
        levels = ", ".join(f"{factor:.4g}" for factor in slide.level_downsamples)
        beside = ", ".join(slide.associated) or "none"
        rows += [("levels, times smaller", levels), ("pictures beside the scan", beside)]
    return Contents("slide", tuple(rows))


def _mask(file: Path) -> Contents:
    tissue, settings = read_mask(file)
    height, width = tissue.region.pixels.shape
    share = float(tissue.region.pixels.mean())
    rows = [
        ("slide, pixels", f"{tissue.size[0]:,} × {tissue.size[1]:,}"),
        ("slide, micrometres per pixel", f"{tissue.mpp:.4g}"),
        ("mask, pixels", f"{width:,} × {height:,}"),
        ("mask, micrometres per pixel", f"{tissue.mpp * tissue.region.downsample:.4g}"),
        ("tissue", f"{tissue.mm2:.2f} mm², {share:.0%} of the slide"),
        ("found by", str(settings.get("method", "unknown"))),
    ]
    return Contents("tissue mask", tuple(rows))


def _bag(file: Path) -> Contents:
    with suppress(InputError):
        ours = read_bag(file)
        if ours.facts.stage == "tiles":
            return _tiles(ours)
    bag = open_bag(file)
    tiles, features = bag.features.shape
    places = "known" if bag.coords is not None else f"not known: {bag.no_coords}"
    rows = [
        ("layout", bag.layout),
        ("tiles", f"{tiles:,}"),
        ("features per tile", f"{features:,}"),
        ("encoder", bag.encoder or "not told"),
        ("reduced", f"by reducer {bag.reducer_sha256[:12]}" if bag.reducer_sha256 else "no"),
        ("places of tiles", places),
        ("a tile, pixels of level 0", _number(bag.tile_px_level0)),
        ("slide, micrometres per pixel", _number(bag.mpp)),
    ]
    return Contents("features of a slide's tiles", tuple(rows))


def _number(value: float | None) -> str:
    return "not told" if value is None else f"{value:.4g}"


def _tiles(bag: BagFile) -> Contents:
    facts = bag.facts
    rows = [
        ("schema", BAG_SCHEMA),
        ("tiles drawn", f"{bag.shape[0]:,}"),
        ("tiles with tissue", f"{facts.n_tissue_tiles or 0:,}"),
        ("a tile", f"{facts.tile_um or 0:g} micrometres, {facts.tile_px} pixels"),
        ("slide, micrometres per pixel", f"{facts.mpp or 0:.4g}"),
        ("seed", str(facts.seed)),
    ]
    return Contents("places of a slide's tiles, no features yet", tuple(rows))


def _tensors(file: Path) -> Contents:
    """A reducer, a network, a U-Net: names and shapes, not numbers."""
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, file.stat().st_size)))
        about = header.pop("__metadata__", {})
        shapes = {name: (part["dtype"], part["shape"]) for name, part in header.items()}
    except (ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
        raise SlideError(f"{file.name} is not a safetensors file, or is cut off.") from error
    rows = [row for name, text in sorted(about.items()) for row in _about(name, text)]
    for name, (dtype, shape) in list(shapes.items())[:_SHOWN]:
        rows.append((name, f"{dtype} {' × '.join(str(side) for side in shape) or 'scalar'}"))
    if len(shapes) > _SHOWN:
        rows.append(("…", f"{len(shapes) - _SHOWN:,} more"))
    return Contents("weights", tuple(rows))


def _about(name: str, text: str) -> list[tuple[str, str]]:
    """What a file tells about itself, one row each where it does so as JSON."""
    try:
        content = json.loads(text)
    except ValueError:
        content = text
    if not isinstance(content, dict):
        return [(name, _short(text))]
    return [(f"{name}: {key}", _short(str(value))) for key, value in sorted(content.items())]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
