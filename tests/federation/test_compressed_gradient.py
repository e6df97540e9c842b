"""The compressed gradient as a question: what adds, what it costs, what a center keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import PatientBatch
from fedcox.federation.compression import (
    AbstractCodec,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
)
from fedcox.federation.queries.compressed_gradient import (
    AbstractCompressedGradient,
    CompressedGradientAt,
    RandomEntriesAt,
)
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import AbstractAdditiveQuery, AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.problems import simulated, split
from tests.properties.test_any_split import splits

PATIENTS = 90
COHORT = simulated(PATIENTS, 3, seed=11)
CODECS: tuple[AbstractCodec, ...] = (Float32(), EightBit(), Sign(), TopK(0.3))


def setting() -> Setting:
    grid = TimeGrid.regular(20.0, 160.0)
    scaling = Scaling(np.arange(3), np.array([0.1, -0.2, 0.3]), np.array([1.0, 1.2, 0.8]))
    return Setting(grid, np.ones(8, dtype=np.bool_), "include", LINKS["cloglog"], scaling)


def asked(agreed: Setting, shift: float = 0.0, *, batch: int | None = None) -> DerivativesAt:
    drawn = None if batch is None else PatientBatch(5, 2, batch, PATIENTS)
    alpha, beta = np.linspace(-2.5, -1.5, 8) + shift, np.array([0.4, -0.2, 0.1])
    return DerivativesAt(agreed, alpha, beta, Detail.GRADIENT, drawn)


def whole(question: DerivativesAt, cohort: Cohort) -> FloatArray:
    here = question.answer(cohort)
    return np.concatenate([here.alpha, here.beta])


def test_only_random_entries_are_vectors_that_add() -> None:
    assert issubclass(RandomEntriesAt, AbstractAdditiveQuery)
    assert not issubclass(CompressedGradientAt, AbstractAdditiveQuery)
    # What a center has not sent is its own: an engine may not join centers to answer.
    assert not issubclass(RandomEntriesAt, AbstractSumQuery)


@settings(max_examples=40)
@given(parts=splits(), step=st.integers(1, 60), keep=st.sampled_from([0.05, 0.3, 1.0]))
def test_random_entries_of_any_split_are_those_of_the_pooled_gradient(
    parts: tuple[IntArray, int], step: int, keep: float
) -> None:
    question, places = asked(setting()), RandomPlaces(keep, 3)
    query = RandomEntriesAt(question, step, places)
    federation = InProcess.from_cohorts(split(COHORT, *parts))
    found = federation.ask(query)
    pooled, drawn = whole(question, COHORT), places.at(step, 11)
    np.testing.assert_allclose(found.gradient[drawn], pooled[drawn], rtol=1e-5, atol=1e-5)
    assert not np.delete(found.gradient, drawn).any()
    assert found.loss == pytest.approx(question.answer(COHORT).loss, rel=1e-6)


@settings(max_examples=40)
@given(parts=splits(), codec=st.sampled_from(CODECS))
def test_decoded_replies_add_over_any_split(
    parts: tuple[IntArray, int], codec: AbstractCodec
) -> None:
    question = asked(setting())
    cohorts = split(COHORT, *parts)
    found = InProcess.from_cohorts(cohorts).ask(CompressedGradientAt(question, 1, codec))
    sent = [
        codec.decode(codec.encode(whole(question, cohort)), 11) for cohort in cohorts.values()
    ]
    np.testing.assert_allclose(found.gradient, sum(sent), atol=1e-10)


@settings(max_examples=20)
@given(parts=splits(), codec=st.sampled_from(CODECS), batch=st.sampled_from([None, 30]))
def test_what_has_not_arrived_is_what_centers_keep(
    parts: tuple[IntArray, int], codec: AbstractCodec, batch: int | None
) -> None:
    """Nothing is lost: replies and rests make up the pooled gradients, whoever holds whom."""
    agreed, feedback, steps = setting(), ErrorFeedback(), range(1, 6)
    federation = InProcess.from_cohorts(split(COHORT, *parts))
    questions = [asked(agreed, 0.1 * step, batch=batch) for step in steps]
    sent = np.zeros(11)
    for step, question in zip(steps, questions, strict=True):
        sent += federation.ask(CompressedGradientAt(question, step, codec, feedback)).gradient
    kept = sum(feedback.before(center.cohort, 6, 11) for center in federation.centers)
    pooled = sum(whole(question, COHORT) for question in questions)
    np.testing.assert_allclose(sent + kept, pooled, atol=1e-9)


def test_without_feedback_a_center_is_not_heard_out() -> None:
    question = asked(setting())
    federation = InProcess.from_cohorts({"all": COHORT})
    replies = [
        federation.ask(CompressedGradientAt(question, step, TopK(0.1))) for step in (1, 2)
    ]
    np.testing.assert_array_equal(replies[0].gradient, replies[1].gradient)
    assert np.count_nonzero(replies[0].gradient) == 1


def test_a_round_repeated_is_answered_alike() -> None:
    agreed, feedback = setting(), ErrorFeedback()
    federation = InProcess.from_cohorts({"all": COHORT})

    def ask(step: int) -> FloatArray:
        query = CompressedGradientAt(asked(agreed, 0.1 * step), step, Sign(), feedback)
        return federation.ask(query).gradient

    first = [ask(1), ask(2)]
    np.testing.assert_array_equal(ask(2), first[1])
    assert (first[0] != first[1]).any()


@pytest.mark.parametrize(
    ("codec", "numbers", "size"),
    [(Float32(), 12, 48), (EightBit(), 13, 19), (Sign(), 13, 10), (TopK(0.3), 7, 22)],
)
def test_the_ledger_counts_the_bytes_that_travel(
    codec: AbstractCodec, numbers: int, size: int
) -> None:
    federation = InProcess.from_cohorts(split(COHORT, np.arange(PATIENTS) % 3, 3))
    federation.ask(CompressedGradientAt(asked(setting()), 1, codec))
    rows = federation.ledger.since((0, 0))
    assert {row.query for row in rows} == {"compressed gradient"}
    assert {(row.numbers_up, row.bytes_up) for row in rows} == {(numbers, size)}


def test_random_entries_travel_in_single_precision() -> None:
    federation = InProcess.from_cohorts({"all": COHORT})
    batch = asked(setting(), batch=20)
    federation.ask(RandomEntriesAt(batch, 1, RandomPlaces(0.3, 0)))
    (row,) = federation.ledger.since((0, 0))
    assert (row.query, row.numbers_up, row.bytes_up) == (
        "compressed gradient of a batch",
        4,
        16,
    )
    assert row.numbers_down == batch.numbers + 4 + batch.agreed.numbers


@pytest.mark.parametrize(
    "query",
    [
        CompressedGradientAt(asked(setting()), 1, EightBit()),
        RandomEntriesAt(asked(setting()), 1, RandomPlaces(0.3, 0)),
    ],
)
def test_what_arrives_is_what_the_bytes_say(query: AbstractCompressedGradient) -> None:
    reply = query.answer(COHORT)
    again = query.read(reply.payload)
    np.testing.assert_array_equal(again.gradient, reply.gradient)
    assert again.loss == reply.loss
    np.testing.assert_array_equal(query.derivatives(reply).beta, reply.gradient[8:])


def test_it_is_asked_at_the_point_of_the_gradient_behind_it() -> None:
    question = asked(setting(), batch=20)
    query = CompressedGradientAt(question, 1, Sign())
    assert query.point == question.point
    assert query.batched


def test_another_step_place_or_share_is_another_question() -> None:
    agreed = setting()
    queries = [
        RandomEntriesAt(asked(agreed), 1, RandomPlaces(0.3, 0)),
        RandomEntriesAt(asked(agreed), 2, RandomPlaces(0.3, 0)),
        RandomEntriesAt(asked(agreed), 1, RandomPlaces(0.4, 0)),
        RandomEntriesAt(asked(agreed), 1, RandomPlaces(0.3, 1)),
        RandomEntriesAt(asked(agreed, 0.1), 1, RandomPlaces(0.3, 0)),
        RandomEntriesAt(asked(agreed), 1, RandomPlaces(0.3, 0), ErrorFeedback()),
    ]
    assert len({query.digest for query in queries}) == len(queries)
    again = RandomEntriesAt(asked(setting()), 1, RandomPlaces(0.3, 0))
    assert again.digest == queries[0].digest


def test_packed_replies_add_and_come_back() -> None:
    query = RandomEntriesAt(asked(setting()), 1, RandomPlaces(0.3, 0))
    reply = query.answer(COHORT)
    packed = query.pack(reply)
    assert packed.shape == (4,)
    double = query.unpack(packed + packed)
    np.testing.assert_array_equal(double.gradient, 2 * reply.gradient)
    assert double.loss == 2 * reply.loss
    assert query.combine(reply, reply).loss == double.loss
