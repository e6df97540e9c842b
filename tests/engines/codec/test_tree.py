"""Trees and bytes: what goes in comes out, bit for bit, and nothing else can come out."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.errors import MessageError

START = to_bytes(None)[:-1]
ARRAYS = st.sampled_from([np.float64, np.int64, np.uint64, np.bool_]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**127), 2**127 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    ARRAYS,
)
TREES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def bits(tree: Any) -> Any:
    """Every bit of a tree, in the order in which it was made."""
    if isinstance(tree, np.ndarray):
        return tree.dtype.str, tree.shape, tree.tobytes()
    if isinstance(tree, float):
        return struct.pack("<d", tree)
    if isinstance(tree, list):
        return [bits(entry) for entry in tree]
    if isinstance(tree, dict):
        return [(key, bits(entry)) for key, entry in tree.items()]
    return type(tree).__name__, tree


def nested(depth: int) -> Tree:
    tree: Tree = 1
    for _ in range(depth):
        tree = [tree]
    return tree


@settings(deadline=None, max_examples=150)
@given(tree=TREES)
def test_every_tree_comes_back_bit_for_bit(tree: Any) -> None:
    found = from_bytes(to_bytes(tree))
    assert bits(found) == bits(tree)
    assert to_bytes(found) == to_bytes(tree)


@settings(deadline=None, max_examples=50)
@given(tree=TREES, data=st.data())
def test_a_cut_message_and_one_that_goes_on_are_refused(tree: Any, data: Any) -> None:
    message = to_bytes(tree)
    cut = data.draw(st.integers(0, len(message) - 1))
    for wrong in (message[:cut], message + b"N"):
        with pytest.raises(MessageError):
            from_bytes(wrong)


@settings(deadline=None, max_examples=300)
@given(noise=st.binary(max_size=200), letters=st.text("NFTIRSBLDAfiub\0\1\2\3", max_size=60))
def test_any_bytes_are_a_tree_or_a_message_error(noise: bytes, letters: str) -> None:
    for content in (noise, letters.encode() + noise):
        try:
            tree = from_bytes(START + content)
        except MessageError:
            continue
        assert to_bytes(tree) == START + content  # there is one way to write a tree


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.arange(6.0).astype(">f8").reshape(2, 3),
        np.broadcast_to(np.array(True), (2, 5)),
        np.array(2.5),
        np.empty((0, 3)),
    ],
    ids=["transposed", "backwards", "big-endian", "broadcast", "one number", "empty"],
)
def test_arrays_arrive_whole_however_they_lay_in_memory(array: Any) -> None:
    found: Any = from_bytes(to_bytes(array))
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)
    assert found.flags.c_contiguous
    assert found.flags.aligned
    assert found.flags.writeable  # as a reply of this process is


def test_numbers_that_are_none_keep_their_bits() -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_BEEF))[0]
    tree = [odd, float("-inf"), -0.0, np.array([odd, np.inf, -0.0])]
    assert bits(from_bytes(to_bytes(tree))) == bits(tree)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (nested(33), "nested more than 32 deep"),
        (2**127, "more than 128 bits"),
        (-(2**127) - 1, "more than 128 bits"),
        (np.zeros(3, np.float32), "an array of float32"),
        (np.array([object()]), "an array of object"),
        (np.array(["text"]), "an array of <U4"),
        (np.array([1j]), "an array of complex128"),
        ({1: 2}, "a key that is a int"),
        ((1, 2), "holds a tuple"),
        (np.int64(3), "holds a int64"),
        ("\ud800", "characters that are none"),
    ],
)
def test_what_is_no_tree_is_not_sent(tree: Any, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        to_bytes(tree)


def size(number: int) -> bytes:
    return struct.pack("<I", number)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is cut"),
        (b"X", "unknown kind"),
        (b"NN", "goes on after its end"),
        (b"L" + size(2**31) + b"N", "is cut"),
        (b"D" + size(2**31), "is cut"),
        (b"B" + size(2**32 - 1), "is cut"),
        (b"S" + size(1) + b"\xff", "a text is none"),
        (b"D" + size(1) + b"N" + b"N", "a key that is no text"),
        (b"D" + size(2) + 2 * (b"S" + size(1) + b"aN"), "a key twice"),
        (b"I\x00", "longer than it needs"),
        (b"I\x02\x01\x00", "longer than it needs"),
        (b"I\x11" + bytes(16) + b"\x01", "longer than it needs"),
        (b"Af\x01" + size(2**32 - 1) + bytes(80), "is cut"),
        (b"Af\x02" + size(2**32 - 1) + size(2**32 - 1) + bytes(80), "is cut"),
        (b"Af\x03" + size(0) + 2 * size(2**32 - 1), "impossible shape"),
        (b"Af\x21" + 33 * size(0), "more than 32 dimensions"),
        (b"AO\x01" + size(1) + bytes(8), "unknown type"),
        (b"Ab\x01" + size(2) + b"\x01\x02", "neither"),
        (33 * (b"L" + size(1)) + b"N", "nested more than 32 deep"),
    ],
)
def test_a_made_up_message_is_refused_without_making_room_for_it(
    content: bytes, words: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=words):
            from_bytes(START + content)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "message", [b"", b"fedcox", b"fedcox\x00\x02N", b"\x80\x04N.", "text", None, bytearray(9)]
)
def test_what_is_no_message_of_this_version_is_refused(message: Any) -> None:
    with pytest.raises(MessageError, match="cannot be read"):
        from_bytes(message)
