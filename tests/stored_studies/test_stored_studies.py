"""Nothing that a study gives has changed: numbers to 1e-12, words, what left, what is drawn."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stored_studies.studies import EXPECTED, STUDIES, file_of, plain

pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
#: In parts of the number; on the machine that stored them they are equal to the last bit.
TOLERANCE = 1e-12


def numbers(result: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of a result, by its place."""
    if isinstance(result, dict | list):
        places = result.items() if isinstance(result, dict) else enumerate(result)
        yield where, len(result)
        for key, value in places:
            yield from numbers(value, f"{where}.{key}")
    else:
        yield where, result


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE)
    if one != other and isinstance(one, str) and isinstance(other, str) and "," in one:
        cells = one.split(","), other.split(",")  # a line of a table
        return len(cells[0]) == len(cells[1]) and all(map(equal, *map(_read, cells)))
    return bool(one == other)


def _read(cells: list[str]) -> list[Any]:
    """Numbers where cells are such: the last bit of one may depend on the machine."""
    number = re.compile(r"-?\d+\.\d+(e-?\d+)?")
    return [float(cell) if number.fullmatch(cell) else cell for cell in cells]


def differences(found: Any, expected: Any) -> list[str]:
    """Where two results differ, and by what."""
    now, before = dict(numbers(found)), dict(numbers(expected))
    return [
        f"{place}: {now.get(place)!r} where it was {before.get(place)!r}"
        for place in {**before, **now}
        if not equal(now.get(place), before.get(place))
    ]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_gives_what_it_gave(name: str) -> None:
    expected = json.loads(file_of(name).read_text(encoding="utf-8"))
    found = plain(STUDIES[name]())
    assert differences(found, expected)[:10] == []


def test_every_stored_result_is_of_a_study() -> None:
    assert {path.name for path in EXPECTED.iterdir()} == {
        file_of(name).name for name in STUDIES
    }


def test_a_difference_is_seen() -> None:
    before = {"coef": [0.5, 1.0], "words": "hazard ratio"}
    assert not differences({**before, "coef": [0.5, 1.0 + 1e-13]}, before)
    assert differences({**before, "coef": [0.5, 1.0 + 1e-11]}, before)
    assert differences({**before, "coef": [0.5]}, before)
    assert differences({**before, "words": "odds ratio"}, before)
    line = {"line": "S1,0.25,1.5e-05,,no"}
    assert not differences({"line": "S1,0.25000000000000006,1.5e-05,,no"}, line)
    assert differences({"line": "S1,0.25000000001,1.5e-05,,no"}, line)
    assert differences({"line": "S1,0.25,1.5e-05,,yes"}, line)
    assert differences({"line": "S1,0.25,1.5e-05,no"}, line)
    assert differences({"coef": before["coef"]}, before)
