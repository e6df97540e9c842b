"""A folder of simulated slides with a planted signal: pyramids, slides.csv, patients.csv.

The slides, TIFF pyramids of JPEG tiles, go through the same steps as a scanner's. planted.json
beside them says where the regions lie that raise the hazard, so that what a model finds can be
held against the truth.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.errors import SlideError, from_extra
from fedcox.files.writing import whole_file, write_csv
from fedcox.slides.simulated_tissue import SimulatedSlideCohort, draw_slide, simulate_cohort
from fedcox.slides.slide import Pixels
from fedcox.slides.tissue import Region

if TYPE_CHECKING:
    from PIL import Image


SCHEMA = "fedcox-planted-1"
_PLANTED = "planted.json"
_STAIN = 5
_TILE = 256
_QUALITY = 85
_ASCII, _SHORT, _LONG, _RATIONAL = 2, 3, 4, 5
_LETTER = {_ASCII: "s", _SHORT: "H", _LONG: "I", _RATIONAL: "II"}
_JPEG, _YCBCR, _CENTIMETRE, _REDUCED = 7, 6, 3, 1
Tags = dict[int, tuple[int, list[int] | bytes]]


@dataclass(frozen=True, eq=False)
class SimulatedSlides:
    """Where the files are and, as truth, where the planted regions lie.

    `planted` is by slide_id, `shares` by patient_id: the planted share that the hazard follows.
    """

    manifest: Path
    patients: Path
    planted: Mapping[str, Region]
    shares: Mapping[str, float]


def simulate_slides(
    folder: str | Path,
    patients: int = 60,
    centers: int = 3,
    seed: int = 0,
    *,
    size_px: int = 1024,
    mpp: float = 1.0,
    effect: float = 6.0,
    wrote: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedSlides:
    """Write the folder; the same arguments give the same bytes.

    Slides are `size_px` square at `mpp` micrometres per pixel. `wrote` is told slides done and
    in all.
    """
    home = Path(folder)
    (home / "slides").mkdir(parents=True, exist_ok=True)
    cohort = simulate_cohort(
        patients, centers, effect=effect, rng=np.random.default_rng([seed, 0])
    )
    stains = np.random.default_rng([seed, 1]).integers(-_STAIN, _STAIN + 1, (centers, 3))
    rows = _slides(cohort)
    planted: dict[str, Region] = {}
    for done, (patient, which) in enumerate(rows, 1):
        drawn = draw_slide(
            size_px,
            mpp,
            float(cohort.share[patient]),
            stain=tuple(stains[cohort.center[patient]].tolist()),
            rng=np.random.default_rng([seed, 2, patient, which]),
        )
        name = _slide_id(patient, which)
        with whole_file(home / "slides" / f"{name}.tiff") as part:
            write_pyramid(part, drawn.pixels, mpp, description="simulated slide, no patient")
        planted[name] = drawn.planted
        wrote(done, len(rows))
    write_csv(home / "patients.csv", _patient_table(cohort))
    shares = {_patient_id(patient): float(share) for patient, share in enumerate(cohort.share)}
    about = {"seed": seed, "effect": effect, "shares": shares}
    _write_planted(home / _PLANTED, planted, about)
    # Last: a folder with a manifest is whole.
    write_csv(home / "slides.csv", _slide_table(cohort))
    return SimulatedSlides(home / "slides.csv", home / "patients.csv", planted, shares)


def read_simulated(folder: str | Path) -> SimulatedSlides:
    """A folder that `simulate_slides` wrote."""
    home = Path(folder)
    try:
        truth = json.loads((home / _PLANTED).read_text(encoding="utf-8"))
        planted = {name: _region(slide) for name, slide in truth[SCHEMA].items()}
        shares = {str(name): float(share) for name, share in truth["shares"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SlideError(
            f"{home} is not a folder of simulated slides: {_PLANTED} cannot be read.",
            ["Write one with: fedcox slides simulate"],
        ) from error
    return SimulatedSlides(home / "slides.csv", home / "patients.csv", planted, shares)


def is_simulated(manifest: Path) -> bool:
    """Whether a manifest lists slides that `simulate_slides` wrote."""
    return (manifest.parent / _PLANTED).exists()


def _slides(cohort: SimulatedSlideCohort) -> list[tuple[int, int]]:
    """(patient, which of the patient's slides), both from 0."""
    return [
        (patient, which) for patient, many in enumerate(cohort.slides) for which in range(many)
    ]


def _patient_id(patient: int) -> str:
    return f"simulated-{patient + 1:04d}"


def _slide_id(patient: int, which: int) -> str:
    return f"{_patient_id(patient)}-{'ab'[which]}"


def _slide_table(cohort: SimulatedSlideCohort) -> list[tuple[str, ...]]:
    rows = [
        (
            _slide_id(patient, which),
            _patient_id(patient),
            f"center-{cohort.center[patient] + 1}",
            f"slides/{_slide_id(patient, which)}.tiff",
        )
        for patient, which in _slides(cohort)
    ]
    return [("slide_id", "patient_id", "center", "path"), *rows]


def _patient_table(cohort: SimulatedSlideCohort) -> list[tuple[str, ...]]:
    rows = [
        (_patient_id(patient), str(days), str(int(event)))
        for patient, (days, event) in enumerate(zip(cohort.days, cohort.event, strict=True))
    ]
    return [("patient_id", "time", "event"), *rows]


def _write_planted(path: Path, planted: Mapping[str, Region], about: Mapping[str, Any]) -> None:
    """Blocks as level-0 pixels of their upper left corners."""
    truth = {
        "about": "simulated slides, no patients; the regions that raise the hazard",
        **about,
        SCHEMA: {
            name: {
                "block_px": region.downsample,
                "blocks": list(region.pixels.shape),
                "planted": [
                    [round(column * region.downsample), round(row * region.downsample)]
                    for row, column in np.argwhere(region.pixels).tolist()
                ],
            }
            for name, region in planted.items()
        },
    }
    with whole_file(path) as part:
        part.write_text(json.dumps(truth) + "\n", encoding="utf-8")


def _region(slide: Mapping[str, Any]) -> Region:
    block = float(slide["block_px"])
    pixels = np.zeros(tuple(slide["blocks"]), bool)
    for x, y in slide["planted"]:
        pixels[round(y / block), round(x / block)] = True
    return Region(pixels, block)


def write_pyramid(
    path: Path, pixels: Pixels, mpp: float, *, levels: int = 3, description: str = ""
) -> None:
    """Each level half the one before. The same pixels give the same bytes.

    `mpp` is micrometres per pixel; without a number (NaN) the file does not tell it.
    """
    with from_extra("pillow", "slides"):
        from PIL import Image

    picture = Image.fromarray(pixels)
    with path.open("wb") as file:
        file.write(b"II*\0")
        pointer = file.tell()
        file.write(bytes(4))
        for level in range(levels):
            size = picture.width >> level, picture.height >> level
            coarser = picture if level == 0 else picture.resize(size, Image.Resampling.BOX)
            tiles = list(_jpeg_tiles(coarser))
            begin = file.tell()
            file.write(b"".join(tiles))
            lengths = [len(tile) for tile in tiles]
            starts = [begin, *(begin + np.cumsum(lengths)[:-1]).tolist()]
            tags = _tags(size, starts, lengths, level) | _resolution(mpp)
            if description and level == 0:
                tags[270] = (_ASCII, description.encode("ascii") + b"\0")
            file.write(bytes(file.tell() % 2))
            pointer = _write_directory(file, tags, pointer)


def _jpeg_tiles(picture: Image.Image) -> Iterator[bytes]:
    """Tiles from left to right, then down; the last ones are filled up with white."""
    from PIL import Image

    for top in range(0, picture.height, _TILE):
        for left in range(0, picture.width, _TILE):
            tile = Image.new("RGB", (_TILE, _TILE), (255, 255, 255))
            right, bottom = (
                min(left + _TILE, picture.width),
                min(top + _TILE, picture.height),
            )
            tile.paste(picture.crop((left, top, right, bottom)))
            stream = io.BytesIO()
            tile.save(stream, "JPEG", quality=_QUALITY, subsampling="4:2:0")
            yield stream.getvalue()


def _tags(size: tuple[int, int], starts: list[int], lengths: list[int], level: int) -> Tags:
    """What TIFF 6.0 and its JPEG supplement ask of a tiled colour image."""
    return {
        254: (_LONG, [_REDUCED if level else 0]),
        256: (_LONG, [size[0]]),
        257: (_LONG, [size[1]]),
        258: (_SHORT, [8, 8, 8]),
        259: (_SHORT, [_JPEG]),
        262: (_SHORT, [_YCBCR]),
        277: (_SHORT, [3]),
        284: (_SHORT, [1]),
        322: (_LONG, [_TILE]),
        323: (_LONG, [_TILE]),
        324: (_LONG, starts),
        325: (_LONG, lengths),
        530: (_SHORT, [2, 2]),
    }


def _resolution(mpp: float) -> Tags:
    """Pixels per centimetre, to six digits; nothing where it is not told."""
    if np.isnan(mpp):
        return {}
    rational = [round(1e4 / mpp * 1e5), 100_000]
    return {
        282: (_RATIONAL, rational),
        283: (_RATIONAL, rational),
        296: (_SHORT, [_CENTIMETRE]),
    }


def _write_directory(file: io.BufferedWriter, tags: Tags, pointer: int) -> int:
    """Write a directory, link it from `pointer`, and tell where the next one is linked."""
    at = file.tell()
    further = at + 2 + 12 * len(tags) + 4
    entries, values = [struct.pack("<H", len(tags))], []
    for tag, (kind, content) in sorted(tags.items()):
        packed, many = _packed(kind, content)
        if len(packed) <= 4:
            place = packed.ljust(4, b"\0")
        else:
            place = struct.pack("<I", further)
            values.append(packed + bytes(len(packed) % 2))
            further += len(values[-1])
        entries.append(struct.pack("<HHI", tag, kind, many) + place)
    file.write(b"".join([*entries, bytes(4), *values]))
    file.seek(pointer)
    file.write(struct.pack("<I", at))
    file.seek(0, io.SEEK_END)
    return at + 2 + 12 * len(tags)


def _packed(kind: int, content: list[int] | bytes) -> tuple[bytes, int]:
    """The bytes of a tag's values, and how many values they are."""
    if isinstance(content, bytes):
        return content, len(content)
    each = len(_LETTER[kind])
    return struct.pack(f"<{len(content)}{_LETTER[kind][0]}", *content), len(content) // each
