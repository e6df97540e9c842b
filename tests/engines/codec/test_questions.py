"""Questions over a network: the same question arrives, and what it refers to is one object."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.questions import (
    decode_questions,
    encode_questions,
    setting_digest,
    settings_brought,
)
from fedcox.engines.codec.records import travelling
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.errors import MessageError
from fedcox.federation.batch import CellBatch, PatientBatch
from fedcox.federation.compression import EightBit, ErrorFeedback, RandomPlaces
from fedcox.federation.queries import all_queries, may_travel
from fedcox.federation.queries.compressed_gradient import CompressedGradientAt, RandomEntriesAt
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.local_steps import LocalLooks, LocalSteps, LocalTraining
from fedcox.federation.queries.risk_set_sums import EventSumsAt
from fedcox.federation.query import AbstractQuery, Shared
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from fedcox.survival.weighted_events import WeightedEvents
from tests.engines.codec.examples import (
    COHORT,
    COHORTS,
    COLUMNS,
    QUESTIONS,
    REGULAR,
    SETTINGS,
    at,
    bits,
    point,
    question_message,
    questions_in,
    reply_in,
    reply_message,
    setting,
)

HELD = {
    *("Setting", "CoxSetting", "LocalTraining", "LocalLooks", "LocalEpochs"),
    *("TimeGrid", "Pieces", "Scaling", "ScoreMetric", "GaussianRelease", "ErrorFeedback"),
    *("Log", "ComplementaryLogLog", "Logit", "TileScorer", "TileScorerWithTable", "Perceptron"),
    *("Linear", "Network"),
    *("PatientBatch", "CellBatch", "EpochBatch", "EpochCells", "HeldOut"),
    *("Float32", "EightBit", "Sign", "TopK", "RandomPlaces"),
    *("Derivatives", "Curvature", "ColumnSums", "Counts"),
    *("Outcomes", "CommonUnit", "WholeTimes", "LocalEnds", "HeldOutLoss"),
    *("PatientsAndTiles", "TileMomentSums"),
}


def test_every_question_that_is_no_experiment_may_travel_and_has_an_example() -> None:
    assert {type(query) for query in QUESTIONS.values()} == set(may_travel())
    assert {kind.__name__ for kind in set(all_queries()) - set(may_travel())} == {
        "EventSumsAt",
        "RiskSetSumsAt",
    }


def test_nothing_may_travel_but_queries_answers_and_what_they_hold() -> None:
    """Whoever adds a class to this list lets a message build it in a hospital."""
    held = set(travelling()) - set(may_travel())
    assert {kind.__name__ for kind in held} == HELD


@pytest.mark.parametrize("kind", may_travel())
def test_every_question_arrives_as_it_was_asked_and_so_do_its_replies(kind: type) -> None:
    for query in (query for query in QUESTIONS.values() if type(query) is kind):
        message = question_message(query)
        (found,) = questions_in(message)
        assert found.digest == query.digest
        assert bits(found) == bits(query)
        assert (found.name, found.numbers) == (query.name, query.numbers)
        if not isinstance(getattr(query, "feedback", None), ErrorFeedback):
            assert question_message(found) == message
        for cohort in COHORTS.values():
            answer = found.answer(cohort)
            arrived = reply_in(query, reply_message(found, answer))
            assert bits(arrived) == bits(answer)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_known_by_its_digest(name: str) -> None:
    agreed = SETTINGS[name]
    settings: dict[bytes, Shared] = {}
    (found,) = questions_in(question_message(at(agreed)), settings)
    assert list(settings) == [setting_digest(agreed)]
    assert settings[setting_digest(agreed)] is found.setting
    assert setting_digest(settings[setting_digest(agreed)]) == setting_digest(agreed)


def test_questions_share_one_setting_in_a_message_and_in_all_later_ones() -> None:
    agreed, settings, known = setting(), dict[bytes, Shared](), set[bytes]()
    first = encode_questions([at(agreed), CovariateSums(), at(agreed, Detail.HESSIAN)], known)
    known.update(settings_brought(first))
    assert known == {setting_digest(agreed)}
    one, _, two = decode_questions(from_bytes(to_bytes(first)), settings)
    assert one.setting is two.setting
    later = encode_questions([at(agreed, Detail.BLOCK)], known)
    assert settings_brought(later) == []
    assert len(to_bytes(later)) < len(to_bytes(first)) / 2
    (three,) = decode_questions(from_bytes(to_bytes(later)), settings)
    assert three.setting is one.setting
    # Equal settings are one, and one that is brought again is the one that is there.
    (four,) = questions_in(question_message(at(setting())), settings)
    assert four.setting is one.setting
    assert len(settings) == 1


def test_local_training_and_what_it_trains_on_are_shared() -> None:
    asked = QUESTIONS["local steps"]
    assert isinstance(asked, LocalSteps)
    settings: dict[bytes, Shared] = {}
    tree = encode_questions([at(asked.training.setting), asked], ())
    gradient, steps = decode_questions(from_bytes(to_bytes(tree)), settings)
    assert isinstance(gradient, DerivativesAt)
    assert isinstance(steps, LocalSteps)
    assert steps.training.setting is gradient.agreed
    assert set(settings_brought(tree)) == set(settings)
    later = encode_questions([replace(asked, round=8)], settings)
    (again,) = decode_questions(from_bytes(to_bytes(later)), settings)
    assert again.setting is steps.training
    # A center that knows the setting alone gets the training, which names it.
    part = encode_questions([asked], {setting_digest(asked.training.setting)})
    assert settings_brought(part) == [setting_digest(asked.training)]
    with pytest.raises(MessageError, match="setting: is not known here"):
        decode_questions(from_bytes(to_bytes(part)), {})


def test_what_was_prepared_goes_with_the_setting() -> None:
    settings: dict[bytes, Shared] = {}
    (query,) = questions_in(question_message(at(setting())), settings)
    agreed = query.setting
    assert isinstance(agreed, Setting)
    prepared = weakref.ref(agreed.prepared(COHORT))
    (again,) = questions_in(question_message(at(setting(), Detail.HESSIAN)), settings)
    assert again.setting.prepared(COHORT) is prepared()  # type: ignore[union-attr]
    settings.clear()
    del query, again, agreed
    gc.collect()
    assert prepared() is None


def test_settings_used_last_come_last_so_that_the_others_can_be_forgotten() -> None:
    first, second = setting(), setting(reading="include")
    settings: dict[bytes, Shared] = {}
    questions_in(question_message(at(first), at(second)), settings)
    assert list(settings) == [setting_digest(first), setting_digest(second)]
    decode_questions(encode_questions([at(first)], settings), settings)
    assert list(settings) == [setting_digest(second), setting_digest(first)]


def test_nothing_of_a_wrong_message_is_kept() -> None:
    good, bad = setting(), replace(at(setting(reading="include")), beta=np.zeros(2))
    tree: Any = encode_questions([at(good), bad], ())
    tree["questions"][1]["beta"] = np.zeros(5)
    settings: dict[bytes, Shared] = {}
    with pytest.raises(MessageError, match="beta has the shape"):
        decode_questions(tree, settings)
    assert not settings


def test_a_compressed_search_over_a_network_is_the_one_at_home() -> None:
    agreed, feedback = setting(), ErrorFeedback()
    settings: dict[bytes, Shared] = {}
    known: set[bytes] = set()
    for step in range(1, 6):
        alpha, beta = point(agreed)
        asked = DerivativesAt(agreed, alpha + step, beta, Detail.GRADIENT)
        query = CompressedGradientAt(asked, step, EightBit(), feedback)
        tree = encode_questions([query], known)
        known.update(settings_brought(tree))
        (found,) = decode_questions(from_bytes(to_bytes(tree)), settings)
        assert bits(found.answer(COHORT)) == bits(query.answer(COHORT))
        assert found.digest == query.digest
    # Another search has nothing unsent, though it is about the same setting.
    other = CompressedGradientAt(at(agreed), 1, EightBit(), ErrorFeedback())
    (found,) = questions_in(question_message(other), settings)
    assert bits(found.answer(COHORT)) == bits(other.answer(COHORT))


@pytest.mark.parametrize("known", [True, False])
def test_a_center_that_lost_what_it_left_unsent_does_not_go_on(known: bool) -> None:
    query = RandomEntriesAt(at(setting()), 4, RandomPlaces(0.5, 1), ErrorFeedback())
    tree = encode_questions([query], ())
    if known:
        names = settings_brought(tree)
        feedback = setting_digest(query.feedback)  # type: ignore[arg-type]
        assert feedback in names
        tree = encode_questions([query], {feedback})
    with pytest.raises(MessageError, match=r"is not known here|earlier steps are not known"):
        decode_questions(from_bytes(to_bytes(tree)), {})


AGREED = setting()
ALPHA, BETA = point(AGREED)


def training(plan: LocalLooks, scale: FloatArray) -> LocalTraining:
    return LocalTraining(AGREED, "sgd", plan, np.zeros(2), scale)


WRONG: dict[str, tuple[Callable[[], AbstractQuery[Any]], str]] = {
    "an experiment": (lambda: EventSumsAt(np.ones(2), np.ones(2)), "EventSumsAt is none of"),
    "alpha too short": (
        lambda: replace(at(AGREED), alpha=ALPHA[1:]),
        r"alpha has the shape \(6,\); \(7,\) is needed",
    ),
    "alpha in two dimensions": (
        lambda: replace(at(AGREED), alpha=ALPHA[None]),
        r"alpha has the shape \(1, 7\)",
    ),
    "beta too long": (lambda: replace(at(AGREED), beta=np.zeros(3)), r"beta has the shape"),
    "alpha in single precision": (
        lambda: replace(at(AGREED), alpha=ALPHA.astype(np.float32)),
        "alpha: must be an array of float64",
    ),
    "beta a list": (
        lambda: replace(at(AGREED), beta=[0.1, 0.2]),  # type: ignore[arg-type]
        "beta: must be an array",
    ),
    "NaN in beta": (
        lambda: replace(at(AGREED), beta=np.array([0.0, np.nan])),
        "beta: must be finite",
    ),
    "infinite alpha": (
        lambda: replace(at(AGREED), alpha=np.full(7, -np.inf)),
        "alpha: must be finite",
    ),
    "cells with curvature": (
        lambda: at(AGREED, Detail.BLOCK, CellBatch(0, 1, 9, 60, AGREED.intervals)),
        "a gradient and no curvature",
    ),
    "cells of other intervals": (
        lambda: at(AGREED, batch=CellBatch(0, 1, 9, 60, AGREED.intervals + 1)),
        "intervals must be those that are fitted",
    ),
    "too large a batch": (
        lambda: at(AGREED, batch=PatientBatch(0, 1, 10**12, 60)),
        "batch: size must be from 1 to 10,000,000",
    ),
    "a batch of nobody": (
        lambda: at(AGREED, batch=PatientBatch(0, 1, 5, 0)),
        "batch: population must be from 1",
    ),
    "a seed below zero": (
        lambda: at(AGREED, batch=PatientBatch(-1, 1, 5, 60)),
        "batch: seed must not be below zero",
    ),
    "a seed that is a float": (
        lambda: at(AGREED, batch=PatientBatch(1.5, 1, 5, 60)),  # type: ignore[arg-type]
        "batch: seed: must be a whole number",
    ),
    "a step that is a truth value": (
        lambda: at(AGREED, batch=PatientBatch(1, True, 5, 60)),
        "batch: step: must be a whole number",
    ),
    "active of another grid": (
        lambda: at(setting(active=np.ones(3, dtype=np.bool_))),
        r"agreed: active has the shape \(3,\)",
    ),
    "active that counts": (
        lambda: at(setting(active=np.ones(8, dtype=np.int64))),
        "agreed: active: must be an array of bool",
    ),
    "unknown reading": (
        lambda: at(setting(reading="sometimes")),
        "agreed: reading: must be one of include, exclude, half",
    ),
    "a link that is not a study's": (
        lambda: at(setting(link=WeightedEvents(LINKS["logit"], 3.0))),
        "agreed: link: must be a Log or ComplementaryLogLog or Logit",
    ),
    "a spread of zero": (
        lambda: at(setting(scaling=Scaling(np.arange(2), np.zeros(2), np.zeros(2)))),
        "scaling: spread must be above zero",
    ),
    "columns out of order": (
        lambda: at(setting(scaling=Scaling(np.array([2, 0]), np.zeros(2), np.ones(2)))),
        "scaling: keep must name columns in their order",
    ),
    "a column twice": (
        lambda: at(setting(scaling=Scaling(np.array([1, 1]), np.zeros(2), np.ones(2)))),
        "scaling: keep must name columns in their order",
    ),
    "means of other columns": (
        lambda: at(setting(scaling=Scaling(np.arange(2), np.zeros(3), np.ones(2)))),
        r"scaling: mean has the shape \(3,\)",
    ),
    "a horizon that is none": (lambda: EventTimes(float("nan")), "horizon: must be a number"),
    "a horizon of zero": (lambda: EventTimes(0.0), "horizon must be above zero"),
    "edges and width that differ": (
        lambda: IntervalCounts(TimeGrid(REGULAR.edges, 7.0), "include"),
        "grid: the edges are not those of intervals of this width",
    ),
    "one edge moved": (
        lambda: IntervalCounts(
            TimeGrid(np.where(REGULAR.edges == 40.0, 39.0, REGULAR.edges), 20.0), "include"
        ),
        "grid: the edges are not those",
    ),
    "joined intervals that end elsewhere": (
        lambda: IntervalCounts(
            TimeGrid(np.array([40.0, 100.0]), 20.0, np.array([2, 4])), "include"
        ),
        "grid: the edges are not those",
    ),
    "ends that fall": (
        lambda: IntervalCounts(
            TimeGrid(np.array([40.0, 100.0]), 20.0, np.array([2, 1])), "include"
        ),
        "grid: ends must increase",
    ),
    "ends without a width": (
        lambda: IntervalCounts(TimeGrid(np.array([40.0]), None, np.array([2])), "include"),
        "grid: ends count intervals",
    ),
    "a step before the first": (
        lambda: CompressedGradientAt(at(AGREED), 0, EightBit()),
        "step must be from 1",
    ),
    "a compressed Hessian": (
        lambda: CompressedGradientAt(at(AGREED, Detail.HESSIAN), 1, EightBit()),
        "only a gradient can be compressed",
    ),
    "training of other parameters": (
        lambda: LocalSteps(
            training(LocalLooks(1), np.ones(3)),
            ALPHA,
            BETA,
            0.1,
            1,
        ),
        "training: scale has the shape",
    ),
    "training without end": (
        lambda: LocalSteps(
            training(LocalLooks(10**9), np.ones(9)),
            ALPHA,
            BETA,
            0.1,
            1,
        ),
        "training: plan: steps must be from 1 to 1,000,000",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_not_sent(name: str) -> None:
    make, words = WRONG[name]
    query = make()
    with pytest.raises(MessageError, match=words) as caught:
        encode_questions([query], ())
    assert f"The question '{query.name}' cannot be sent." in str(caught.value)


def changed(query: AbstractQuery[Any], change: Callable[[Any], object]) -> Any:
    """The message of a question with one thing in it changed."""
    tree: Any = from_bytes(question_message(query))
    change(tree)
    return tree


def put(**fields: Any) -> Callable[[Any], object]:
    return lambda tree: tree["questions"][0].update(fields)


HESSIAN = at(AGREED, Detail.HESSIAN)
ARRIVING: dict[str, tuple[AbstractQuery[Any], Callable[[Any], object], str]] = {
    "unknown question": (
        HESSIAN,
        put(**{"class": "PatientList"}),
        "PatientList is none of the questions",
    ),
    "an experiment": (HESSIAN, put(**{"class": "RiskSetSumsAt"}), "RiskSetSumsAt is none of"),
    "no class": (
        HESSIAN,
        lambda tree: tree["questions"][0].pop("class"),
        "What was asked is none of",
    ),
    "a field more": (HESSIAN, put(more=1), "must have exactly: agreed, alpha, beta, detail"),
    "a private field": (
        QUESTIONS["counts, half"],
        put(_placed={}),
        "must have exactly: grid, reading",
    ),
    "a field less": (
        HESSIAN,
        lambda tree: tree["questions"][0].pop("batch"),
        "exactly: agreed",
    ),
    "alpha too short": (HESSIAN, put(alpha=np.zeros(6)), r"alpha has the shape \(6,\)"),
    "alpha of counts": (HESSIAN, put(alpha=np.zeros(7, np.int64)), "alpha: must be an array"),
    "NaN": (HESSIAN, put(beta=np.array([0, np.nan])), "beta: must be finite"),
    "all faults at once": (
        HESSIAN,
        put(beta=np.array([0, np.nan]), detail="some", batch=3),
        r"(?s)beta: must be finite.*detail: must be one of.*batch: must be a PatientBatch or",
    ),
    "a reading in place of a batch": (
        HESSIAN,
        put(batch={"class": "TimeGrid", "edges": np.ones(1), "width": None, "ends": None}),
        "batch: must be a PatientBatch or CellBatch",
    ),
    "unknown setting": (HESSIAN, put(agreed=bytes(32)), "agreed: is not known here"),
    "a setting that is no name": (HESSIAN, put(agreed=7), "agreed: must be a name"),
    "a setting of another name": (
        HESSIAN,
        lambda tree: tree["settings"][0].update(name=bytes(32)),
        "A Setting is not what its name says",
    ),
    "a setting that was changed": (
        HESSIAN,
        lambda tree: tree["settings"][0]["value"].update(reading="include"),
        "A Setting is not what its name says",
    ),
    "a setting twice": (
        HESSIAN,
        lambda tree: tree["settings"].append(tree["settings"][0]),
        "cannot be read",
    ),
    "a setting of no kind": (
        HESSIAN,
        lambda tree: tree["settings"][0].update(value=None),
        "A setting of a message cannot be used",
    ),
    "columns that patients do not have": (
        replace(at(setting(scaling=Scaling(np.array([0, 3]), np.zeros(2), np.ones(2))))),
        lambda tree: None,
        "The Setting of a message .*(\n.*)*keep names column 4, and patients have 3",
    ),
    "means of other columns": (
        CovariateScatter(np.zeros(4)),
        lambda tree: None,
        r"mean has the shape \(4,\); \(3,\) is needed",
    ),
    "a grid without edges": (
        QUESTIONS["last interval"],
        lambda tree: tree["questions"][0]["grid"].update(edges=np.empty(0), width=None),
        "grid: The time grid needs at least one edge",
    ),
    "a share of two": (
        QUESTIONS["compressed by TopK"],
        lambda tree: tree["questions"][0]["codec"].update(keep=2.0),
        "codec: Found keep = 2",
    ),
    "noise below zero": (
        QUESTIONS["noised moments"],
        lambda tree: tree["questions"][0]["release"].update(noise_multiplier=-1.0),
        "release: The noise multiplier is -1",
    ),
    "noise too small to add": (
        QUESTIONS["noised moments"],
        lambda tree: tree["questions"][0]["release"].update(
            noise_multiplier=1e-310, whole=None
        ),
        "release: noise multiplier and sensitivity are too small",
    ),
    "training in place of a setting": (
        QUESTIONS["local steps"],
        lambda tree: tree["questions"][0].update(training=tree["settings"][0]["name"]),
        "training: must be a LocalTraining",
    ),
    "too many questions": (
        CovariateSums(),
        lambda tree: tree["questions"].extend(1000 * tree["questions"]),
        "more than 1000 questions",
    ),
    "no list": (CovariateSums(), lambda tree: tree.update(questions={}), "cannot be read"),
    "something more": (CovariateSums(), lambda tree: tree.update(more=1), "cannot be read"),
}


@pytest.mark.parametrize("name", ARRIVING)
def test_a_wrong_question_is_refused_by_name(name: str) -> None:
    query, change, words = ARRIVING[name]
    settings: dict[bytes, Shared] = {}
    with pytest.raises(MessageError, match=words):
        decode_questions(changed(query, change), settings, columns=COLUMNS)
    assert not settings


@pytest.mark.parametrize("tree", [None, [], 3, b"", {"settings": []}, np.zeros(3)])
def test_what_is_no_question_is_refused(tree: Any) -> None:
    with pytest.raises(MessageError):
        decode_questions(tree, {})
