"""Replies over a network: bit for bit, in the shape of the question, finite, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.in_process import InProcess
from fedcox.errors import MessageError
from fedcox.federation.queries.compressed_gradient import CompressedGradient
from fedcox.federation.queries.risk_set_sums import EventSumsAt
from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery, Shared
from fedcox.solvers.adam import Adam
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from tests.engines.codec.examples import (
    COHORT,
    COLUMNS,
    QUESTIONS,
    bits,
    question_message,
    questions_in,
    reply_in,
    reply_message,
    with_slides,
)
from tests.problems import simulated, split


@pytest.mark.parametrize("name", ["noised score", "noised moments"])
def test_a_noised_reply_arrives_though_it_is_below_zero(name: str) -> None:
    query = QUESTIONS[name]
    assert isinstance(query, AbstractPrivateQuery)
    size = query.pack(query.answer(COHORT)).size
    answer = query.unpack(np.random.default_rng(1).normal(-5.0, 9.0, size))
    assert bits(reply_in(query, reply_message(query, answer))) == bits(answer)


class OverBytes(InProcess):
    """Every question and every reply goes through bytes; each center keeps its settings."""

    def __init__(self, centers: Sequence[Any]) -> None:
        super().__init__(centers)
        self._settings: dict[str, dict[bytes, Shared]] = {name: {} for name in self.names}

    @classmethod
    def of(cls, cohorts: Mapping[str, Cohort]) -> OverBytes:
        return cls(InProcess.from_cohorts(cohorts).centers)

    def ask(self, query: AbstractQuery[Any]) -> Any:
        return self.ask_together([query])[0]

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        self.ledger.open_round()
        asked = [*queries, *each]
        message = question_message(*asked)
        replies = {}
        for center in self.centers:
            arrived = questions_in(message, self._settings[center.name])
            sent = [reply_message(query, center.answer(query)) for query in arrived]
            replies[center.name] = list(map(reply_in, asked, sent))
        combined = [
            reduce(query.combine, (reply[place] for reply in replies.values()))
            for place, query in enumerate(queries)
        ]
        return combined + [
            {name: reply[place] for name, reply in replies.items()}
            for place in range(len(queries), len(asked))
        ]


SOLVERS: dict[str, AbstractSolver] = {
    "Newton": Newton(),
    "L-BFGS": LBFGS(),
    "Adam on batches": Adam(learning_rate=0.1, steps=15, batch_size=30),
    "Adam in few bytes": Adam(learning_rate=0.1, steps=15, compression="8-bit"),
    "Adam on random entries": Adam(
        learning_rate=0.1, steps=15, compression="random-k", keep=0.2
    ),
    "federated averaging": FederatedAveraging(rounds=6, local_steps=2),
}


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
@pytest.mark.parametrize("name", SOLVERS)
def test_a_fit_over_bytes_is_the_fit_at_home_to_the_last_bit(name: str) -> None:
    pooled = simulated(200, COLUMNS, seed=8)
    cohorts = split(pooled, np.arange(200) % 7 % 3, 4)  # unequal, and one of nobody
    plan = Plan(("a", "b", "c"), LINKS["cloglog"], "half", 25.0, None, 0.1, SOLVERS[name])
    found, expected = (estimate(plan, engine(cohorts)) for engine in (OverBytes.of, at_home))
    assert bits(found.inference) == bits(expected.inference)
    assert bits(found.solution) == bits(expected.solution)


def at_home(cohorts: Mapping[str, Cohort]) -> InProcess:
    return InProcess.from_cohorts(cohorts)


def spoiled(array: Any, value: float) -> Any:
    changed = np.array(array)
    changed.flat[0] = value
    return changed


HESSIAN, GRADIENT = QUESTIONS["hessian by logit, half"], QUESTIONS["gradient by logit, half"]
COUNTS, SUMS = QUESTIONS["counts, half"], QUESTIONS["sums"]
EIGHT_BITS = QUESTIONS["compressed by EightBit"]


def of_curvature(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        curvature = answer.curvature
        parts = {name: new(getattr(curvature, name)) for name, new in changes.items()}
        return answer._replace(curvature=curvature._replace(**parts))

    return change


WRONG: dict[str, tuple[AbstractQuery[Any], Callable[[Any], Any], str]] = {
    "a loss that is none": (HESSIAN, lambda a: a._replace(loss=np.nan), "loss: must be a num"),
    "an infinite loss": (HESSIAN, lambda a: a._replace(loss=np.inf), "loss: must be finite"),
    "a loss of another type": (
        HESSIAN,
        lambda a: a._replace(loss="1"),
        "loss: must be a number",
    ),
    "NaN in the gradient": (
        HESSIAN,
        lambda a: a._replace(beta=spoiled(a.beta, np.nan)),
        "beta: must be finite",
    ),
    "infinity in the curvature": (
        HESSIAN,
        of_curvature(cross=lambda cross: spoiled(cross, -np.inf)),
        "curvature: cross: must be finite",
    ),
    "too short a gradient": (
        HESSIAN,
        lambda a: a._replace(alpha=a.alpha[1:]),
        r"alpha: must be an array of shape \(7\)",
    ),
    "a block of another shape": (
        HESSIAN,
        of_curvature(cross=lambda cross: cross.T),
        r"curvature: cross: must be an array of shape \(7, 2\)",
    ),
    "a diagonal alone": (
        HESSIAN,
        of_curvature(beta=np.diag),
        r"curvature: beta: must be an array of shape \(2, 2\)",
    ),
    "no block": (
        HESSIAN,
        of_curvature(cross=lambda cross: None),
        r"curvature: cross: must be an array of shape",
    ),
    "no curvature": (
        HESSIAN,
        lambda a: a._replace(curvature=None),
        r"curvature: alpha: must be an array of shape",
    ),
    "curvature that nobody asked for": (
        GRADIENT,
        lambda a: HESSIAN.answer(COHORT),
        "curvature: alpha: must not be there",
    ),
    "single precision": (
        HESSIAN,
        lambda a: a._replace(beta=a.beta.astype(np.float32)),
        "beta: must be an array of float64",
    ),
    "another reply": (HESSIAN, lambda a: COUNTS.answer(COHORT), "must be a Derivatives"),
    "a tuple": (HESSIAN, tuple, "must be a Derivatives"),
    "counts below zero": (
        COUNTS,
        lambda a: replace(a, at_risk=spoiled(a.at_risk, -1.0)),
        "no counts among those who reach an interval",
    ),
    "more at risk than patients": (
        COUNTS,
        lambda a: replace(a, reached=spoiled(a.reached, 61.0)),
        "reached are no counts among the patients",
    ),
    "more events than at risk": (
        COUNTS,
        lambda a: replace(a, events=spoiled(a.events, 60.5)),
        "no counts among those who reach an interval",
    ),
    "fewer patients than none": (COUNTS, lambda a: replace(a, patients=-1), "are no counts"),
    "patients in parts": (
        COUNTS,
        lambda a: replace(a, patients=1.5),
        "patients: must be a whole",
    ),
    "events of other intervals": (
        COUNTS,
        lambda a: replace(a, events=a.events[1:]),
        "are no counts",
    ),
    "counts of other intervals": (
        COUNTS,
        lambda a: replace(a, reached=a.reached[1:], at_risk=a.at_risk[1:], events=a.events[1:]),
        r"at_risk: must be an array of shape \(8\)",
    ),
    "more values than patients": (
        SUMS,
        lambda a: replace(a, present=spoiled(a.present, 61.0)),
        "are no counts of the same patients",
    ),
    "infinite sums": (
        SUMS,
        lambda a: replace(a, total=spoiled(a.total, np.inf)),
        "total: must be finite",
    ),
    "more events than patients": (
        QUESTIONS["outcomes"],
        lambda a: replace(a, events=61),
        "are no counts of the same patients",
    ),
    "half a scatter": (
        QUESTIONS["scatter"],
        lambda a: a[:2],
        r"must be an array of shape \(3, 3\)",
    ),
    "times out of order": (QUESTIONS["event times"], lambda a: a[::-1], "times must increase"),
    "a time beyond the horizon": (
        QUESTIONS["event times up to"],
        lambda a: np.append(a, 91.0),
        "times must increase, from above zero to the horizon",
    ),
    "times in two dimensions": (
        QUESTIONS["event times"],
        lambda a: a[:, None],
        r"must be an array of shape \(any\)",
    ),
    "a negative follow-up": (QUESTIONS["follow-up"], lambda a: -1.0, "not below zero"),
    "no follow-up": (QUESTIONS["follow-up"], lambda a: None, "must be a number"),
    "an interval beyond the last": (
        QUESTIONS["last interval"],
        lambda a: 9,
        "no such interval",
    ),
    "an interval that is a truth": (
        QUESTIONS["last interval"],
        lambda a: True,
        "must be a whole number",
    ),
    "ends of nobody": (
        QUESTIONS["local steps"],
        lambda a: replace(a, patients=-60),
        "patients is no count",
    ),
    "ends of other columns": (
        QUESTIONS["local steps"],
        lambda a: replace(a, beta=np.zeros(3)),
        r"beta: must be an array of shape \(2\)",
    ),
    "noise that is none": (
        QUESTIONS["noised score"],
        lambda a: spoiled(a, np.nan),
        "must be finite",
    ),
    "too few bytes": (
        EIGHT_BITS,
        lambda a: replace(a, payload=a.payload[:-1]),
        "bytes, and 13 are needed",
    ),
    "no bytes, as of a sum": (EIGHT_BITS, lambda a: EIGHT_BITS.combine(a, a), "0 bytes, and 4"),
    "bytes that stand for NaN": (
        EIGHT_BITS,
        lambda a: replace(a, payload=np.array(np.nan, "<f4").tobytes() + a.payload[4:]),
        "must be finite",
    ),
    "a network's gradient too short": (
        QUESTIONS["network gradient"],
        lambda a: a._replace(beta=a.beta[1:]),
        "beta: must be an array",
    ),
    "a network's loss that is none": (
        QUESTIONS["network gradient"],
        lambda a: a._replace(loss=np.nan),
        "loss: must be a number",
    ),
    "more held out than patients": (
        QUESTIONS["network loss"],
        lambda a: replace(a, patients=61),
        "fewer held-out patients",
    ),
    "held-out patients below zero": (
        QUESTIONS["network loss"],
        lambda a: replace(a, patients=-1),
        "patients is no count",
    ),
    "ends of a network for a baseline": (
        QUESTIONS["network steps"],
        lambda a: replace(a, alpha=a.beta),
        "alpha: must be an array",
    ),
    "slopes of a network for a baseline's": (
        QUESTIONS["baseline diagonal"],
        lambda a: a._replace(alpha=a.beta),
        "alpha: must be an array",
    ),
    "no compressed reply": (EIGHT_BITS, lambda a: a.payload, "must be a CompressedGradient"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_reply_does_not_leave(name: str) -> None:
    query, change, words = WRONG[name]
    answer = change(query.answer(COHORT))
    with pytest.raises(MessageError, match=words) as caught:
        encode_reply(query, answer)
    assert f"The reply to '{query.name}' cannot be sent." in str(caught.value)


def as_tree(value: Any) -> Any:
    """What a center that checks nothing would send."""
    if isinstance(value, CompressedGradient):
        return value.payload
    if hasattr(value, "_asdict"):
        named = value._asdict()
    elif hasattr(value, "__dataclass_fields__"):
        named = vars(value)
    else:
        return list(map(as_tree, value)) if isinstance(value, tuple) else value
    parts = {name: as_tree(part) for name, part in named.items()}
    return {"class": type(value).__name__, **parts}


@pytest.mark.parametrize("name", [name for name in WRONG if name != "no compressed reply"])
def test_a_wrong_reply_is_refused_where_it_arrives(name: str) -> None:
    query, change, words = WRONG[name]
    tree = as_tree(change(query.answer(COHORT)))
    with pytest.raises(MessageError, match=words) as caught:
        decode_reply(query, tree, COLUMNS)
    assert f"The reply to '{query.name}' cannot be used." in str(caught.value)


def test_a_reply_with_a_field_more_is_refused() -> None:
    tree = {**as_tree(SUMS.answer(COHORT)), "patient": 12345}
    with pytest.raises(MessageError, match="must have exactly: patients, present, total"):
        decode_reply(SUMS, tree, COLUMNS)


def test_sums_of_other_columns_are_refused() -> None:
    message = reply_message(SUMS, SUMS.answer(simulated(20, COLUMNS + 1)))
    with pytest.raises(MessageError, match=r"present: must be an array of shape \(3\)"):
        reply_in(SUMS, message)


def test_replies_to_experiments_do_not_travel() -> None:
    query = EventSumsAt(np.ones(1), np.zeros(COLUMNS))
    with pytest.raises(MessageError, match="do not travel"):
        encode_reply(query, query.answer(COHORT))
    with pytest.raises(MessageError, match="do not travel"):
        decode_reply(query, None, COLUMNS)


NUMBER = 731973.8125
#: Patients in whom every value is one that a message could be searched for.
MARKED = with_slides(
    Cohort(
        np.full((30, COLUMNS), NUMBER) + np.arange(90).reshape(30, 3) * 2.0**-10,
        np.full(30, NUMBER),
        np.arange(30) % 2 == 0,
    )
)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_number_of_a_reply_is_in_what_is_told_of_it(name: str) -> None:
    query = QUESTIONS[name]
    with np.errstate(all="ignore"):
        tree = as_tree(query.answer(MARKED))
    told = []
    for wrong in broken(tree):
        try:
            decode_reply(query, wrong, COLUMNS)
        except MessageError as error:
            told.append(str(error))
    assert told
    # Shapes and lengths are the question's own, and short.
    assert not [text for text in told if re.search(r"\d{4}|\d\.\d", text)]


def broken(tree: Any) -> list[Any]:
    """The tree with every one of its parts replaced by something else, and by parts of it."""
    others = [
        NUMBER,
        str(NUMBER),
        [tree],
        {str(NUMBER): tree},
        np.full((2, 2, 2), NUMBER),
        None,
    ]
    if isinstance(tree, np.ndarray):
        others.append(np.append(tree, NUMBER))
    if not isinstance(tree, dict):
        return others
    for name, part in tree.items():
        others += [{**tree, name: other} for other in broken(part)]
        others.append({**tree, name + str(NUMBER): part})
    return others
