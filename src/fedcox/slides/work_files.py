"""Where the files of a slide lie in a working folder, and which were made after which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

REDUCED = "reduced"


def mask_path(slide_id: str, work: Path) -> Path:
    """What `segment` makes."""
    return work / "masks" / f"{slide_id}.png"


def tiles_path(slide_id: str, work: Path) -> Path:
    """What `tile` makes."""
    return work / "tiles" / f"{slide_id}.h5"


def features_path(slide_id: str, work: Path) -> Path:
    """What `embed` makes."""
    return work / "features" / f"{slide_id}.h5"


def reduced_path(slide_id: str, work: Path) -> Path:
    """What `reduce` makes, of these features or of another program's."""
    return work / REDUCED / f"{slide_id}.h5"


_WAY = {"segment": mask_path, "tile": tiles_path, "embed": features_path}


def made_after(step: str, slide_id: str, work: Path) -> Iterator[Path]:
    """Files of a slide that rest on what `step` makes of it, the last one first."""
    if step not in _WAY:
        return
    # Without features of our own, the reduced ones are of another program's.
    if features_path(slide_id, work).exists() and reduced_path(slide_id, work).exists():
        yield reduced_path(slide_id, work)
    names = list(_WAY)
    for name in reversed(names[names.index(step) + 1 :]):
        path = _WAY[name](slide_id, work)
        if path.exists():
            yield path
