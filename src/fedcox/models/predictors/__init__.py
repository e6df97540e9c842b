"""What φ may be: this folder is the closed list, one file for each.

A new file is a new φ: it travels in a setting, and queries about it have its words.
"""

from __future__ import annotations

from functools import cache

from fedcox.files.classes import classes_in
from fedcox.models.predictor import AbstractPredictor


@cache
def all_predictors() -> tuple[type[AbstractPredictor], ...]:
    """Every class of predictors in this folder."""
    return classes_in(__name__, AbstractPredictor)


def words_by_predictor(*asked: str) -> dict[str, str]:
    """What leaves a hospital that is asked one of these about a φ with words of its own."""
    return {
        f"{kind.prefix}{name}": words
        for kind in all_predictors()
        for name, words in kind.words.items()
        if name in asked
    }
