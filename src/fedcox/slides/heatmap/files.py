"""Where the files of a heatmap run lie: one folder for each kind, one file for each slide."""

from __future__ import annotations

from pathlib import Path

PAGE, TOP_TILES = "heatmap.html", "top_tiles.csv"


def picture_file(folder: Path, slide_id: str) -> Path:
    """The slide beside its map."""
    return folder / "heatmaps" / f"{slide_id}.png"


def gallery_file(folder: Path, slide_id: str) -> Path:
    """Its highest and lowest tiles; not there where the slide's own file is not."""
    return folder / "tiles" / f"{slide_id}.png"


def geojson_file(folder: Path, slide_id: str) -> Path:
    """Its tiles for QuPath."""
    return folder / "qupath" / f"{slide_id}.geojson"


def scores_file(folder: Path, slide_id: str) -> Path:
    """Its tiles as a table."""
    return folder / "scores" / f"{slide_id}.csv"
