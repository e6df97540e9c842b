"""Which polygons, with holes, enclose the true pixels of a mask.

The edges between true and false pixels, each with the true one on its right, are joined up to
rings. Where four such edges meet, a ring stays with its pixel; pixels that touch at a corner
alone are therefore of two polygons. A ring that comes to a corner twice is cut there, so that
each is simple, as the readers of GeoJSON ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Ring: TypeAlias = list[tuple[int, int]]
"""Corners (x, y) in pixels of the mask, closed: the last is the first."""

# East along a pixel's top, south along its right side, west, north.
_STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


def polygons(mask: NDArray[np.bool_]) -> list[list[Ring]]:
    """Each polygon an outer ring, then its holes; ordered by their first pixel.

    Outer rings run clockwise as one looks at the picture, holes the other way round.
    """
    labelled, pieces = ndimage.label(mask)
    label = np.asarray(labelled, np.int32)
    found: list[list[Ring]] = [[] for _ in range(pieces)]
    for piece, whole in _rings(mask, label):
        for ring in _simple(whole):
            corners = _corners(ring)
            if _area(corners) > 0:
                found[piece - 1].insert(0, corners)
            else:
                found[piece - 1].append(corners)
    return found


def _rings(mask: NDArray[np.bool_], label: NDArray[np.int32]) -> Iterator[tuple[int, Ring]]:
    """Every ring as all its lattice points, with the piece it belongs to; not closed."""
    x, y, heading, piece = _edges(mask, label)
    wide = mask.shape[1] + 1
    start = y * wide + x
    ends = (y + _STEPS[heading, 1]) * wide + x + _STEPS[heading, 0]
    following = _following(4 * start + heading, ends, heading)
    xs, ys, nexts = x.tolist(), y.tolist(), following.tolist()
    seen = [False] * len(xs)
    for first in range(len(xs)):
        ring, at = [], first
        while not seen[at]:
            seen[at] = True
            ring.append((xs[at], ys[at]))
            at = nexts[at]
        if ring:
            yield int(piece[first]), ring


def _edges(
    mask: NDArray[np.bool_], label: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
    """Start x and y, heading, and piece of every edge with a true pixel on its right."""
    padded = np.pad(mask, 1)
    inside = padded[1:-1, 1:-1]
    beyond = (padded[:-2, 1:-1], padded[1:-1, 2:], padded[2:, 1:-1], padded[1:-1, :-2])
    corner = ((0, 0), (1, 0), (1, 1), (0, 1))
    parts = []
    for heading, (other, (right, low)) in enumerate(zip(beyond, corner, strict=True)):
        row, column = np.nonzero(inside & ~other)
        parts.append(
            (column + right, row + low, np.full(len(row), heading), label[row, column])
        )
    x, y, headings, pieces = (np.concatenate(part) for part in zip(*parts, strict=True))
    return x, y, headings, pieces


def _following(
    key: NDArray[np.intp], ends: NDArray[np.intp], heading: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The edge after each: to the right where there is one, else straight on, else left."""
    order = np.argsort(key)
    ranked = key[order]
    following = np.full(len(key), -1)
    for turn in (3, 0, 1):  # the last one found counts
        wanted = 4 * ends + (heading + turn) % 4
        place = np.minimum(np.searchsorted(ranked, wanted), max(len(ranked) - 1, 0))
        there = ranked[place] == wanted
        following[there] = order[place[there]]
    return following


def _simple(ring: Ring) -> Iterator[Ring]:
    """Cut where a point comes back: each part visits a point once."""
    path: Ring = []
    place: dict[tuple[int, int], int] = {}
    for point in ring:
        if point in place:
            begin = place[point]
            part = path[begin:]
            for gone in part:
                del place[gone]
            del path[begin:]
            yield part
        place[point] = len(path)
        path.append(point)
    yield path


def _corners(ring: Ring) -> Ring:
    """Closed, without the points that lie on a straight line."""
    before, after = ring[-1:] + ring[:-1], ring[1:] + ring[:1]
    kept = [
        point
        for last, point, following in zip(before, ring, after, strict=True)
        if not (last[0] == point[0] == following[0] or last[1] == point[1] == following[1])
    ]
    return [*kept, kept[0]]


def _area(ring: Ring) -> int:
    """Twice the area; positive where the ring runs clockwise in the picture (y is down)."""
    return sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in pairwise(ring))
