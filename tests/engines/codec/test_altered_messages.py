"""Any byte of a real message changed, any part cut off: refused, or as good as before."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from fedcox.errors import MessageError
from tests.engines.codec.examples import (
    COHORT,
    QUESTIONS,
    outline,
    question_message,
    questions_in,
    reply_in,
    reply_message,
)

ASKED = (
    "hessian by all columns",
    "of cells",
    "local steps on cells",
    "scatter",
    "Cox, a batch",
    "noised score",
    "random entries",
)
ANSWERED = (
    "hessian by logit, half",
    "diagonal by logit, half",
    "counts, half",
    "sums",
    "scatter",
    "outcomes",
    "event times",
    "follow-up",
    "last interval",
    "local steps",
    "noised moments",
    "compressed by EightBit",
    "compressed by TopK",
    "random entries",
)
Read = Callable[[bytes], Any]


def asked(name: str) -> tuple[bytes, Read]:
    return question_message(QUESTIONS[name]), questions_in


def answered(name: str) -> tuple[bytes, Read]:
    query = QUESTIONS[name]
    with np.errstate(all="ignore"):
        message = reply_message(query, query.answer(COHORT))
    return message, lambda changed: reply_in(query, changed)


MESSAGES = {f"asked: {name}": asked(name) for name in ASKED} | {
    f"answered: {name}": answered(name) for name in ANSWERED
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_with_any_byte_changed_is_refused_or_of_the_same_shape(name: str) -> None:
    message, read = MESSAGES[name]
    expected = _outline(read(message))
    refused = 0
    for place, byte in enumerate(message):
        for other in {byte ^ 1, byte ^ 0x80, byte ^ 0xFF, ord("N")} - {byte}:
            changed = message[:place] + bytes([other]) + message[place + 1 :]
            try:
                found = read(changed)
            except MessageError:
                refused += 1
            else:
                assert _outline(found) == expected
    assert refused >= 4 * 8  # at the least, all that say what it is


def _outline(found: Any) -> Any:
    return list(map(outline, found)) if isinstance(found, list) else outline(found)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_cut_anywhere_is_refused(name: str) -> None:
    message, read = MESSAGES[name]
    for end in range(len(message)):
        with pytest.raises(MessageError):
            read(message[:end])


@pytest.mark.parametrize("name", ["asked: Cox, a batch", "answered: counts, half"])
def test_no_changed_byte_makes_a_reader_ask_for_much_memory(name: str) -> None:
    message, read = MESSAGES[name]
    read(message)  # what is made once and kept
    tracemalloc.start()
    try:
        for place, byte in enumerate(message):
            changed = message[:place] + bytes([byte ^ 0xFF]) + message[place + 1 :]
            with suppress(MessageError):
                read(changed)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
