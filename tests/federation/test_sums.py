"""Answers as vectors: what is added, masked and counted follows from fields and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedcox.federation.queries import may_travel
from fedcox.federation.query import AbstractAdditiveQuery
from fedcox.federation.sums import FieldSum, Layout, Shapes, Symmetric
from fedcox.survival.cohort import FloatArray
from tests.engines.codec.examples import COHORTS, COLUMNS, QUESTIONS, bits

ADDITIVE = [kind for kind in may_travel() if issubclass(kind, AbstractAdditiveQuery)]


@dataclass(frozen=True, eq=False)
class Inner:
    square: FloatArray
    row: FloatArray | None


@dataclass(frozen=True, eq=False)
class Sums(FieldSum):
    people: int
    loss: float
    slope: FloatArray
    inner: Inner | None = None


SQUARE = np.array([[1.0, 2.0], [2.0, 3.0]])
SHAPES: Shapes = {"slope": (3,), "inner: square": Symmetric(2)}
LAYOUT = Layout(Sums, SHAPES)
ANSWER = Sums(4, 0.5, np.array([7.0, 8.0, 9.0]), Inner(SQUARE, None))


def test_parts_stand_in_the_order_of_the_fields_and_a_square_as_its_triangle() -> None:
    vector = LAYOUT.pack(ANSWER)
    np.testing.assert_array_equal(vector, [4, 0.5, 7, 8, 9, 1, 2, 3])
    assert LAYOUT.numbers(ANSWER) == vector.size
    assert bits(LAYOUT.unpack(vector)) == bits(ANSWER)


def test_whole_numbers_come_back_whole_though_noise_or_masks_left_a_little() -> None:
    found = LAYOUT.unpack(LAYOUT.pack(ANSWER) + 1e-9)
    assert (type(found.people), found.people) == (int, 4)
    assert found.loss == 0.5 + 1e-9


def test_what_has_no_shape_is_not_there() -> None:
    found = Layout(Sums, {"slope": (3,)}).unpack(np.arange(5.0))
    assert found.inner is None
    assert LAYOUT.unpack(np.arange(8.0)).inner.row is None


def test_arrays_without_entries_are_there() -> None:
    layout = Layout(Inner, {"square": (0,), "row": (0, 2)})
    found = layout.unpack(layout.pack(Inner(np.empty(0), np.empty((0, 2)))))
    assert found.square.shape == (0,)
    assert found.row.shape == (0, 2)


def test_arrays_of_any_length_share_what_is_left_of_a_vector() -> None:
    layout = Layout(Inner, {"square": (None,), "row": (None,)})
    found = layout.unpack(np.arange(6.0))
    np.testing.assert_array_equal(found.square, [0, 1, 2])
    np.testing.assert_array_equal(found.row, [3, 4, 5])


def test_sums_add_field_by_field_and_what_does_not_add_is_no_sum() -> None:
    counts = QUESTIONS["counts, half"].answer(COHORTS["one"])
    assert (counts + counts).patients == 2
    np.testing.assert_array_equal((counts + counts).at_risk, 2 * counts.at_risk)
    with pytest.raises(TypeError):
        _ = ANSWER + ANSWER  # its inner part does not say how it adds


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        (ANSWER, []),
        (Sums(4, 0.5, np.ones(2), ANSWER.inner), ["slope: must be an array of shape (3)"]),
        (
            Sums(4, 0.5, np.ones(3), Inner(np.ones(3), np.ones(1))),
            [
                "inner: square: must be an array of shape (2, 2)",
                "inner: row: must not be there",
            ],
        ),
        (Sums(4, 0.5, np.ones(3)), ["inner: square: must be an array of shape (2, 2)"]),
    ],
)
def test_other_shapes_are_told_by_the_names_of_the_fields(
    answer: Sums, faults: list[str]
) -> None:
    assert LAYOUT.faults(answer) == faults


@pytest.mark.parametrize("kind", ADDITIVE)
def test_the_declared_shapes_are_those_of_answers_and_vectors_add_as_answers_do(
    kind: Any,
) -> None:
    examples: list[Any] = [query for query in QUESTIONS.values() if type(query) is kind]
    for query in examples:
        answers = [query.answer(cohort) for cohort in COHORTS.values()]
        for answer in answers:
            assert not Layout(query.layout.answer, query.shapes(COLUMNS)).faults(answer)
            vector = query.pack(answer)
            assert vector.size == query.numbers_in(answer)
            again = query.pack(query.unpack(vector))
            assert again.tobytes() == vector.tobytes()
        one, other = answers[:2]
        summed = query.pack(query.combine(one, other))
        np.testing.assert_array_equal(summed, query.pack(one) + query.pack(other))
