"""In which numbers may a network be computed, and what may count once? For all who say it."""

from __future__ import annotations

from typing import Literal

SlideWeight = Literal["slide", "patient"]
Precision = Literal["float32", "float64", "bfloat16"]
