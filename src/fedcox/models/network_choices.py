"""In which numbers may a network be computed, and what may count once? For all who say it."""

from __future__ import annotations

from typing import Literal

SlideWeight = Literal["slide", "patient"]
Precision = Literal["float32", "float64", "bfloat16"]


def of_scores(precision: Precision) -> Precision:
    """That of scores that are told: half precision is for the steps of training."""
    return "float32" if precision == "bfloat16" else precision
