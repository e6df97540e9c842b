"""Replies as plain vectors, which can be added, masked, noised and sent."""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail, zero_derivatives


def pack_symmetric(square: FloatArray) -> FloatArray:
    """The upper triangle, row by row."""
    return np.asarray(square[np.triu_indices(len(square))])


def unpack_symmetric(triangle: FloatArray) -> FloatArray:
    """The square matrix with this upper triangle."""
    size = int(np.sqrt(2 * triangle.size))
    square = np.zeros((size, size))
    square[np.triu_indices(size)] = triangle
    return np.asarray(square + np.triu(square, 1).T)


def pack_derivatives(reply: Derivatives) -> FloatArray:
    """Loss, gradient, then the curvature's parts; the symmetric block once."""
    parts = [np.array([reply.loss]), reply.alpha, reply.beta]
    if reply.curvature is not None:
        alpha, cross, beta = reply.curvature
        parts.append(pack_symmetric(alpha) if alpha.ndim == 2 else alpha)
        parts += [] if cross is None else [cross.ravel()]
        parts.append(pack_symmetric(beta) if beta.ndim == 2 else beta)
    return np.concatenate(parts)


def unpack_derivatives(
    vector: FloatArray, intervals: int, columns: int, detail: Detail, *, spline: bool = False
) -> Derivatives:
    """The reply whose `pack_derivatives` this is."""
    empty = zero_derivatives(intervals, columns, detail, spline=spline).curvature
    gradient = 1 + intervals + columns
    alpha, beta = vector[1 : 1 + intervals], vector[1 + intervals : gradient]
    curvature = None
    if empty is not None:
        dense = empty.alpha.ndim == 2
        first = gradient + (intervals * (intervals + 1) // 2 if dense else intervals)
        last = first + (0 if empty.cross is None else empty.cross.size)
        cross = None
        if empty.cross is not None:
            cross = vector[first:last].reshape(intervals, columns)
        square = vector[last:] if empty.beta.ndim == 1 else unpack_symmetric(vector[last:])
        curved = vector[gradient:first]
        curvature = Curvature(unpack_symmetric(curved) if dense else curved, cross, square)
    return Derivatives(float(vector[0]), alpha, beta, curvature)
