"""Trees and bytes: what goes in comes out, bit for bit, and nothing else can come out."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.errors import MessageError

MARK = to_bytes(None)[:-5]


def made_up(plain: bytes, content: bytes = b"") -> bytes:
    """A message of this plain part and this content of arrays."""
    return MARK + struct.pack("<I", len(plain)) + plain + content


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


@settings(max_examples=150)
@given(tree=TREES)
def test_every_tree_comes_back_bit_for_bit(tree: Any) -> None:
    found = from_bytes(to_bytes(tree))
    assert bits(found) == bits(tree)
    assert to_bytes(found) == to_bytes(tree)


@settings(max_examples=50)
@given(tree=TREES, data=st.data())
def test_a_cut_message_and_one_that_goes_on_are_refused(tree: Any, data: Any) -> None:
    message = to_bytes(tree)
    cut = data.draw(st.integers(0, len(message) - 1))
    for wrong in (message[:cut], message + b"\xc0"):
        with pytest.raises(MessageError):
            from_bytes(wrong)


@settings(max_examples=300)
@given(
    noise=st.binary(max_size=200),
    letters=st.text(
        "\x80\x81\x90\x91\xa1\xc0\xc1\xc3\xc4\xc7\xcb\xcf\xd4\xd8\xdcfiub\0\1\2", max_size=60
    ),
    content=st.binary(max_size=40),
)
def test_any_bytes_are_a_tree_or_a_message_error(
    noise: bytes, letters: str, content: bytes
) -> None:
    for plain in (noise, letters.encode("latin-1") + noise):
        for message in (made_up(plain, content), MARK + plain):
            try:
                tree = from_bytes(message)
            except MessageError:
                continue
            assert to_bytes(tree) == message  # there is one way to write a tree


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
        ([0] * 10_001, "more than 10,000 entries"),
        (nested(33), "nested more than 32 deep"),
        (2**127, "more than 128 bits"),
        (-(2**127) - 1, "more than 128 bits"),
        (np.zeros(3, np.float32), "an array of float32"),
        (np.array([object()]), "an array of object"),
        (np.array(["text"]), "an array of <U4"),
        (np.array([1j]), "an array of complex128"),
        ({1: 2}, "a key that is a int"),
        ((1, 2), "holds a tuple"),
        (bytearray(3), "holds a bytearray"),
        (memoryview(b"abc"), "holds a memoryview"),
        (msgpack.ExtType(3, b""), "holds a ExtType"),
        (msgpack.Timestamp(0), "holds a Timestamp"),
        (np.int64(3), "holds a int64"),
        ("\ud800", "characters that are none"),
    ],
)
def test_what_is_no_tree_is_not_sent(tree: Any, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        to_bytes(tree)


def array(code: bytes, *lengths: int) -> bytes:
    """An array of this type and shape, in the plain part."""
    header = code + struct.pack(f"<{len(lengths)}I", *lengths)
    return bytes((0xC7, len(header), 1)) + header


def large(content: bytes) -> bytes:
    return bytes((0xC7, len(content), 2)) + content


@pytest.mark.parametrize(
    ("plain", "content", "words"),
    [
        (b"", b"", "is cut"),
        (b"\xc1", b"", "unknown kind"),
        (b"\xc0\xc0", b"", "goes on after its end"),
        (b"\xc0", b"\0", "goes on after its end"),
        (b"\xdd\x80\0\0\0\xc0", b"", "is cut"),
        (b"\xdf\x80\0\0\0", b"", "is cut"),
        (b"\xc6\xff\xff\xff\xff", b"", "is cut"),
        (b"\xa1\xff", b"", "a text is none"),
        (b"\x81\xc0\xc0", b"", "a key that is no text"),
        (b"\x81\xc4\x01a\xc0", b"", "a key that is a bytes"),
        (b"\x82\xa1a\xc0\xa1a\xc0", b"", "says something twice"),
        (b"\xcc\x01", b"", "longer than it needs"),
        (b"\xca\0\0\0\0", b"", "longer than it needs"),
        (large(bytes(1)), b"", "longer than it needs"),
        (large(bytes(16) + b"\1"), b"", "unknown kind"),
        (b"\xd6\xff\0\0\0\0", b"", "holds a Timestamp"),
        (b"\xd4\x07\0", b"", "unknown kind"),
        (array(b"f", 2**32 - 1), bytes(80), "is cut"),
        (array(b"f", 2**32 - 1, 2**32 - 1), bytes(80), "is cut"),
        (array(b"f", 0, 2**32 - 1, 2**32 - 1), b"", "impossible shape"),
        (array(b"f", *(33 * [0])), b"", "more than 32 dimensions"),
        (array(b"O", 1), bytes(8), "unknown type"),
        (array(b"f", 1)[:-1], bytes(8), "is cut"),
        (b"\xc7\x04\x01f\0\0\0", bytes(8), "unknown type"),
        (b"\xc7\0\x01", bytes(8), "unknown type"),
        (array(b"b", 2), b"\1\2", "neither"),
        (array(b"f", 1), bytes(9), "goes on after its end"),
        (33 * b"\x91" + b"\xc0", b"", "nested more than 32 deep"),
        (2000 * b"\x91" + b"\xc0", b"", "nested more than 32 deep"),
    ],
)
def test_a_made_up_message_is_refused_without_making_room_for_it(
    plain: bytes, content: bytes, words: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=words) as caught:
            from_bytes(made_up(plain, content))
        assert "cannot be read" in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_lists_within_lists_make_room_for_few_entries_however_many_they_say() -> None:
    said = 1000 * (b"\xdd" + struct.pack(">I", 9_000)) + 10_000_000 * b"\xc0"
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            from_bytes(made_up(1000 * (b"\xdd" + struct.pack(">I", 10**6)) + bytes(10**6)))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000  # two copies of the message
        with pytest.raises(MessageError):
            from_bytes(made_up(said))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000 + 2 * len(said)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [2, 2**31, 2**32 - 1])
def test_a_plain_part_beyond_the_message_is_refused(size: int) -> None:
    with pytest.raises(MessageError, match="is cut"):
        from_bytes(MARK + struct.pack("<I", size) + b"\xc0")


def test_a_message_of_an_older_version_is_refused_as_one() -> None:
    with pytest.raises(MessageError, match="another version of fedcox; all must run the same"):
        from_bytes(b"fedcox\x00\x01N")


def test_a_message_is_plain_msgpack_but_for_its_arrays() -> None:
    plain = to_bytes({"a": [1, 2.5, "é", b"b", None, True], "b": np.arange(3.0)})[
        len(MARK) + 4 :
    ]
    unpacker = msgpack.Unpacker()
    unpacker.feed(plain)
    found = unpacker.unpack()
    assert found == {
        "a": [1, 2.5, "é", b"b", None, True],
        "b": msgpack.ExtType(1, b"f" + struct.pack("<I", 3)),
    }
    assert plain[unpacker.tell() :] == np.arange(3.0).astype("<f8").tobytes()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"fedcox",
        b"fedcox\x00\x02",
        b"fedcox\x00\x03N",
        b"\x80\x04N.",
        "text",
        None,
        bytearray(9),
    ],
)
def test_what_is_no_message_of_this_version_is_refused(message: Any) -> None:
    with pytest.raises(MessageError, match="cannot be read"):
        from_bytes(message)
